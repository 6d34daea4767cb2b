"""The applications with Kafka as programs for Quix Streams, at least once, with its states in RocksDB and changelogs.

Written as its guide teaches it. Words are brought together with `group_by`, which writes each of them to a topic of
Quix's own and reads it from there: that is its way to exchange messages between partitions. The messages of the latency
application have their keys already. For the contract of a baseline with Kafka see README.md one folder up.
"""

from __future__ import annotations

import os

from quixstreams import Application


def count_words(messages):
    """Count each word."""
    words = messages.apply(lambda line: line.split(" "), expand=True)
    by_word = words.group_by(
        lambda word: word,
        name="word",
        value_serializer="str",
        value_deserializer="str",
        key_serializer="str",
        key_deserializer="str",
    )
    return by_word.apply(_count_word, stateful=True)


def _count_word(word, state):
    total = state.get("total", 0) + 1
    state.set("total", total)
    return f"{word} => {total}"


def answer(messages):
    """Answer each message with the count of its key."""
    return messages.apply(_answer, stateful=True)


def _answer(message, state):
    key, time = message.split(" ")
    count = state.get("count", 0) + 1
    state.set("count", count)
    return f"{key} {count} {time}"


APPLICATIONS = {"words": count_words, "latency": answer}


def main():
    is_latency = os.environ["BENCH_APPLICATION"] == "latency"
    application = Application(
        broker_address=os.environ["BENCH_BROKERS"],
        consumer_group=os.environ["BENCH_SOURCE"],
        auto_offset_reset="earliest",
        state_dir=os.environ["BENCH_STATE"],
        # The usual number, 100,000, would have it wait now and then.
        producer_extra_config={"queue.buffering.max.messages": 1_000_000, "linger.ms": 0 if is_latency else 20},
        consumer_extra_config={"fetch.queue.backoff.ms": 5},
        loglevel="WARNING",
    )
    source = application.topic(os.environ["BENCH_SOURCE"], key_deserializer="str", value_deserializer="str")
    sink = application.topic(os.environ["BENCH_SINK"], key_serializer="str", value_serializer="str")
    outputs = APPLICATIONS[os.environ["BENCH_APPLICATION"]](application.dataframe(source))
    outputs.to_topic(sink)
    application.run()


if __name__ == "__main__":
    main()
