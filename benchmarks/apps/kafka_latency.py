"""Answers each message `key time` of a topic with `key count time` in another; the steps are those of `latency`."""

from latency import Counter, count, decode, key_of

import wallaroo


def application_setup(args):
    ab = wallaroo.ApplicationBuilder("Latency benchmark with Kafka")
    ab.new_pipeline("messages", wallaroo.KafkaSourceConfig(*wallaroo.kafka_parse_source_options(args), decode))
    ab.to_state_partition(count, Counter, "counters", key_of)
    options = wallaroo.kafka_parse_sink_options(args)
    ab.to_sink(wallaroo.KafkaSinkConfig(*options, encode, exactly_once="--at-least-once" not in args))
    return ab.build()


@wallaroo.encoder
def encode(output):
    return ("{} {} {}".format(*output), output[0])
