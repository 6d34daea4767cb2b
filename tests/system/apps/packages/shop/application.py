"""The longest word so far for each first letter."""

import struct

import wallaroo

from .sizes import Largest


def application_setup(args):
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    ab = wallaroo.ApplicationBuilder("Longest")
    ab.new_pipeline("Words", wallaroo.TCPSourceConfig(in_host, in_port, Decoder()))
    ab.to_state_partition(Longest, Largest, "largest", FirstLetter)
    ab.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, Encoder()))
    return ab.build()


class Decoder:
    """Two bytes with the length, little-endian."""

    def header_length(self):
        return 2

    def payload_length(self, bs):
        return struct.unpack("<H", bs)[0]

    def decode(self, bs):
        return bs.decode("utf-8")


class FirstLetter:
    def partition(self, word):
        return word[:1]


class Longest:
    def name(self):
        return "longest"

    def compute(self, word, largest):
        return ((word[:1], largest.see(word)), True)


class Encoder:
    def encode(self, data):
        return "%s => %d\n" % data
