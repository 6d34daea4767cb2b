"""Answers each message `key time` with how often its key has come, and the time: `key count time`.

`--stateless` leaves the state and the count out. `--two-states` counts twice, in two states one behind the other, whose
keys lie in different places; where the counts differ, the answer has -1.
"""

import wallaroo


def application_setup(args):
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    ab = wallaroo.ApplicationBuilder("Latency benchmark")
    ab.new_pipeline("messages", wallaroo.TCPSourceConfig(in_host, in_port, decode))
    if "--stateless" in args:
        ab.to(add_nothing)
    else:
        ab.to_state_partition(count, Counter, "counters", key_of)
    if "--two-states" in args:
        ab.to_state_partition(count_again, Counter, "second counters", key_backwards)
    ab.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encode))
    return ab.build()


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(bs):
    key, time = bs.decode().split(" ")
    return (key, int(time))


@wallaroo.partition
def key_of(message):
    return message[0]


class Counter:
    def __init__(self):
        self.count = 0


@wallaroo.state_computation(name="count")
def count(message, state):
    state.count += 1
    return ((message[0], state.count, message[1]), True)


@wallaroo.partition
def key_backwards(message):
    return message[0][::-1]


@wallaroo.state_computation(name="count again")
def count_again(message, state):
    key, first_count, time = message
    state.count += 1
    return ((key, state.count if state.count == first_count else -1, time), True)


@wallaroo.computation(name="add nothing")
def add_nothing(message):
    return (message[0], 0, message[1])


@wallaroo.encoder
def encode(output):
    return "{} {} {}\n".format(*output).encode()
