"""Counts words from a topic of Kafka to another; everything but source and sink is that of `word_count`."""

import wallaroo
from word_count import LETTERS, WordTotals, count_word, decode, first_letter, split


def application_setup(args):
    ab = wallaroo.ApplicationBuilder("Word count benchmark with Kafka")
    ab.new_pipeline("words", wallaroo.KafkaSourceConfig(*wallaroo.kafka_parse_source_options(args), decode))
    ab.to_parallel(split)
    ab.to_state_partition(count_word, WordTotals, "word totals", first_letter, LETTERS)
    options = wallaroo.kafka_parse_sink_options(args)
    ab.to_sink(wallaroo.KafkaSinkConfig(*options, encode, exactly_once="--at-least-once" not in args))
    return ab.build()


@wallaroo.encoder
def encode(data):
    return (f"{data[0]} => {data[1]}", data[0])
