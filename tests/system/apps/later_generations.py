"""Written as the last releases of the original had it: pipelines that are values, keys of messages, states of steps."""

import wallaroo


def application_setup(args):
    ((name, in_host, in_port),) = wallaroo.tcp_parse_input_addrs(args)
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    typed = wallaroo.source("typed", wallaroo.TCPSourceConfig(name, in_host, in_port, decode)).to(parse)
    made = wallaroo.source("made", wallaroo.GenSourceConfig("made", Numbers()))
    pipeline = (
        typed.merge(made)
        .key_by(last_digit)
        .to(double)
        .to(add_up)
        .to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encode))
    )
    return wallaroo.build_application("Later generations", pipeline)


class Numbers:
    def initial_value(self):
        return 0

    def apply(self, value):
        return value + 1 if value < 4999 else None


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(bs):
    return bs.decode()


@wallaroo.computation(name="parse")
def parse(text):
    return int(text)


@wallaroo.key_extractor
def last_digit(number):
    return str(number % 10)


@wallaroo.computation(name="double")
def double(number):
    # The key stays that of the number that came in.
    return number * 2


class Sum:
    def __init__(self):
        self.count = 0
        self.sum = 0


@wallaroo.state_computation(name="add up", state=Sum)
def add_up(number, state):
    state.count += 1
    state.sum += number
    return number % 20 // 2, state.count, state.sum


@wallaroo.encoder
def encode(result):
    return "{} {} {}\n".format(*result)
