"""The applications with Kafka as Bytewax dataflows, with Bytewax's own connectors for Kafka.

Written for speed, as far as Bytewax's documentation goes: steps that work on batches (`flat_map_batch`,
`stateful_batch`), large batches from the source, because its sink waits for the brokers after every batch, and no
recovery directory, so no state is made durable. For the contract of a baseline with Kafka see README.md one folder up.
"""

from __future__ import annotations

import os

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
from bytewax.dataflow import Dataflow
from bytewax_flow import Letter
from bytewax_latency import Counter

_MESSAGES_AT_ONCE = 20_000


def count_words(messages):
    """Count the words, with the states of 27 letters."""
    words = op.flat_map_batch(
        "split",
        messages,
        lambda batch: [
            (word[0] if "a" <= word[0] <= "z" else "!", word)
            for message in batch
            for word in message.value.decode().split(" ")
        ],
    )
    counts = op.stateful_batch("count", words, Letter)
    return op.flat_map_batch(
        "encode",
        counts,
        lambda batch: [KafkaSinkMessage(word.encode(), f"{word} => {total}".encode()) for _, (word, total) in batch],
    )


def answer(messages):
    """Answer each message with the count of its key."""
    decoded = op.flat_map_batch(
        "decode", messages, lambda batch: [tuple(message.value.decode().split(" ")) for message in batch]
    )
    counts = op.stateful_batch("count", decoded, Counter)
    return op.flat_map_batch(
        "encode",
        counts,
        lambda batch: [
            KafkaSinkMessage(key.encode(), f"{key} {count} {time}".encode()) for key, (count, time) in batch
        ],
    )


APPLICATIONS = {"words": count_words, "latency": answer}


def flow():
    """Build the dataflow that the environment asks for."""
    made = Dataflow("kafka")
    brokers = [os.environ["BENCH_BROKERS"]]
    # Otherwise the client pauses for a second when it has fetched enough.
    source = KafkaSource(
        brokers,
        [os.environ["BENCH_SOURCE"]],
        batch_size=_MESSAGES_AT_ONCE,
        add_config={"fetch.queue.backoff.ms": 5},
    )
    outputs = APPLICATIONS[os.environ["BENCH_APPLICATION"]](op.input("source", made, source))
    # All that is made of a batch fits in the queue: the sink takes a full one for an error. Its flush after each batch
    # does not wait for the pause, which only makes the requests to the brokers larger.
    settings = {"queue.buffering.max.messages": 1_000_000, "linger.ms": 50}
    op.output("sink", outputs, KafkaSink(brokers, os.environ["BENCH_SINK"], add_config=settings))
    return made
