"""Turns temperatures in degrees Celsius into degrees Fahrenheit: four steps without a state."""

import wallaroo


def application_setup(args):
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    ab = wallaroo.ApplicationBuilder("Celsius benchmark")
    ab.new_pipeline("temperatures", wallaroo.TCPSourceConfig(in_host, in_port, decode))
    ab.to(multiply)
    ab.to(add)
    ab.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encode))
    return ab.build()


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(bs):
    return float(bs)


@wallaroo.computation(name="multiply by 1.8")
def multiply(data):
    return data * 1.8


@wallaroo.computation(name="add 32")
def add(data):
    return data + 32


@wallaroo.encoder
def encode(data):
    return f"{data:.2f}\n".encode()
