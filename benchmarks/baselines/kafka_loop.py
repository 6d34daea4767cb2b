"""The applications with Kafka as a bare loop over confluent-kafka, in one process and with all states in memory.

It writes at least once: the positions are committed after what was made of the messages before them has been written.
For the contract of a baseline with Kafka see README.md one folder up.
"""

from __future__ import annotations

import os

from confluent_kafka import Consumer, KafkaException, Producer

_MESSAGES_AT_ONCE = 10_000


def words_of(totals, line):
    """Yield an output for every word of a line."""
    for word in line.decode().split(" "):
        total = totals[word] = totals.get(word, 0) + 1
        yield f"{word} => {total}", word


def answer(counts, message):
    """Yield the answer to a message."""
    key, time = message.decode().split(" ")
    count = counts[key] = counts.get(key, 0) + 1
    yield f"{key} {count} {time}", key


APPLICATIONS = {"words": words_of, "latency": answer}


def batches(consumer):
    """Yield the messages that have come, as soon as there are some."""
    while True:
        first = consumer.poll(1.0)
        if first is not None:
            batch = [first, *consumer.consume(_MESSAGES_AT_ONCE - 1, 0)]
            for message in batch:
                if message.error() is not None:
                    raise KafkaException(message.error())
            yield batch


def main():
    brokers = {"bootstrap.servers": os.environ["BENCH_BROKERS"]}
    consumer = Consumer(
        {
            **brokers,
            "group.id": os.environ["BENCH_SOURCE"],
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            # Otherwise the client pauses for a second when it has fetched enough.
            "fetch.queue.backoff.ms": 5,
        }
    )
    consumer.subscribe([os.environ["BENCH_SOURCE"]])
    # All that is made of a batch fits in the queue. A flush does not wait for the pause, which only makes the requests
    # to the brokers larger.
    producer = Producer({**brokers, "queue.buffering.max.messages": 1_000_000, "linger.ms": 50})
    outputs_of = APPLICATIONS[os.environ["BENCH_APPLICATION"]]
    topic = os.environ["BENCH_SINK"]
    state = {}
    for batch in batches(consumer):
        for message in batch:
            for value, key in outputs_of(state, message.value()):
                producer.produce(topic, value, key)
        producer.flush()
        consumer.commit(asynchronous=True)


if __name__ == "__main__":
    main()
