"""Two pipelines that need all the memory there is: each message is kept by two states in a row, and put out again."""

import wallaroo


def application_setup(args):
    receiver = wallaroo.tcp_parse_output_addrs(args)[0]
    ab = wallaroo.ApplicationBuilder("Large")
    for name, address in zip(["one", "two"], wallaroo.tcp_parse_input_addrs(args), strict=True):
        ab.new_pipeline(name, wallaroo.TCPSourceConfig(*address, decode))
        ab.to_state_partition(keep, Last, f"first {name}", key_of)
        ab.to_state_partition(keep, Last, f"second {name}", key_of)
        ab.to_sink(wallaroo.TCPSinkConfig(*receiver, encode))
    return ab.build()


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(bs):
    return bs


@wallaroo.partition
def key_of(bs):
    return bs[:1]


class Last:
    def __init__(self):
        self.bytes = b""


@wallaroo.state_computation("keep")
def keep(bs, last):
    last.bytes = bs
    return bs, True


@wallaroo.encoder
def encode(bs):
    return bs
