"""Counts the words of a topic and of connections together; the totals go to a topic and to a receiver.

Words that begin with an n go to the last partition of the topic, all others to that of their key.
"""

import wallaroo

LAST_PARTITION = 2


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(bs):
    return bs.decode()


@wallaroo.computation_multi(name="split into words")
def split(line):
    return line.split()


class Total:
    def __init__(self):
        self.total = 0


@wallaroo.partition
def by_word(word):
    return word


@wallaroo.state_computation(name="count")
def count(word, state):
    state.total += 1
    return (word, state.total), True


@wallaroo.encoder
def for_topic(counted):
    word, total = counted
    return f"{word} => {total}", word, LAST_PARTITION if word.startswith("n") else None


@wallaroo.encoder
def for_receiver(counted):
    word, total = counted
    return f"{word} => {total}\n".encode()


def application_setup(args):
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    sources = {
        "topic": wallaroo.KafkaSourceConfig(*wallaroo.kafka_parse_source_options(args), decode),
        "connections": wallaroo.TCPSourceConfig(in_host, in_port, decode),
    }
    sinks = [
        wallaroo.KafkaSinkConfig(*wallaroo.kafka_parse_sink_options(args), for_topic, exactly_once=False),
        wallaroo.TCPSinkConfig(out_host, out_port, for_receiver),
    ]
    ab = wallaroo.ApplicationBuilder("Kafka and TCP")
    for name, source in sources.items():
        ab.new_pipeline(name, source)
        ab.to_parallel(split)
        ab.to_state_partition(count, Total, "totals", by_word)
        ab.to_sinks(sinks)
    return ab.build()
