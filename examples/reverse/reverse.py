"""Reverses each line of text."""

import wallaroo


def application_setup(args):
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]

    ab = wallaroo.ApplicationBuilder("Reverse")
    ab.new_pipeline("reverse lines", wallaroo.TCPSourceConfig(in_host, in_port, decoder))
    ab.to(reverse)
    ab.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encoder))
    return ab.build()


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decoder(bs):
    return bs.decode("utf-8")


@wallaroo.computation(name="reverse")
def reverse(text):
    return text[::-1]


@wallaroo.encoder
def encoder(text):
    return (text + "\n").encode("utf-8")
