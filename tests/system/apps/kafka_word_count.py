"""Counts words from topic to topic, with the options of the original's Kafka programs."""

import wallaroo


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
def encode(counted):
    word, total = counted
    return f"{word} => {total}", word


def application_setup(args):
    ab = wallaroo.ApplicationBuilder("Kafka word count")
    ab.new_pipeline("lines", wallaroo.KafkaSourceConfig(*wallaroo.kafka_parse_source_options(args), decode))
    ab.to_parallel(split)
    ab.to_state_partition(count, Total, "totals", by_word)
    ab.to_sink(wallaroo.KafkaSinkConfig(*wallaroo.kafka_parse_sink_options(args), encode))
    return ab.build()
