"""Turns temperatures in degrees Celsius into degrees Fahrenheit."""

import struct

import wallaroo


def application_setup(args):
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]

    ab = wallaroo.ApplicationBuilder("Celsius to Fahrenheit")
    ab.new_pipeline("convert", wallaroo.TCPSourceConfig(in_host, in_port, Decoder()))
    ab.to(Multiply)
    ab.to(Add)
    ab.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, Encoder()))
    return ab.build()


class Decoder:
    """A message is its length (four bytes, big-endian) and a temperature as a float of four bytes."""

    def header_length(self):
        return 4

    def payload_length(self, bs):
        return struct.unpack(">I", bs)[0]

    def decode(self, bs):
        return struct.unpack(">f", bs)[0]


class Multiply:
    def name(self):
        return "multiply by 1.8"

    def compute(self, data):
        return data * 1.8


class Add:
    def name(self):
        return "add 32"

    def compute(self, data):
        return data + 32


class Encoder:
    """The result goes out in the same way, as a float of eight bytes."""

    def encode(self, data):
        return struct.pack(">Id", 8, data)
