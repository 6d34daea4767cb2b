"""Counts the messages of each key: one that is lost, comes twice or out of order shows in the very next line.

A message is the text `key connection number padding`: the number counts the messages of a connection. A line says what
came, and what the state knew of it: `key connection number last total`, where `last` is the number of the message
before it with this key on this connection, and `total` counts all messages of the key, whatever their connection.
"""

import wallaroo


def application_setup(args):
    source, sink = kafka_ends(args) if "--kafka_source_topic" in args else tcp_ends(args)
    ab = wallaroo.ApplicationBuilder("Sequence")
    ab.new_pipeline("sequence", source)
    ab.to_state_partition(follow, Followed, "followed", by_key)
    ab.to_sink(sink)
    return ab.build()


def tcp_ends(args):
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    return wallaroo.TCPSourceConfig(in_host, in_port, decoder), wallaroo.TCPSinkConfig(out_host, out_port, encoder)


def kafka_ends(args):
    # The broker ends transactions of a driver that stands still for a few seconds.
    config = {"transaction.timeout.ms": 5000}
    return (
        wallaroo.KafkaSourceConfig(*wallaroo.kafka_parse_source_options(args), decoder),
        wallaroo.KafkaSinkConfig(*wallaroo.kafka_parse_sink_options(args), keyed_encoder, config=config),
    )


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decoder(bs):
    key, connection, number, _ = bs.decode("utf-8").split(" ", 3)
    return key, connection, int(number)


class Followed:
    def __init__(self):
        self.last = {}
        self.total = 0


@wallaroo.partition
def by_key(message):
    return message[0]


@wallaroo.state_computation(name="follow")
def follow(message, state):
    key, connection, number = message
    last = state.last.get(connection, 0)
    state.last[connection] = number
    state.total += 1
    return ((key, connection, number, last, state.total), True)


@wallaroo.encoder
def encoder(result):
    return (" ".join(map(str, result)) + "\n").encode("utf-8")


@wallaroo.encoder
def keyed_encoder(result):
    return " ".join(map(str, result)), result[0]
