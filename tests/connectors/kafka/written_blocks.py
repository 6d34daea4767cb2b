"""Blocks for a Kafka sink, the same in every process, and what a topic has to hold when they are written.

As a program it writes blocks until it is killed, and prints the number of each block that is delivered:
`python -m tests.connectors.kafka.written_blocks BROKERS TOPIC APPLICATION FIRST END`.
"""

import json
import random
import sys
import threading
import time
from array import array

from wallaroo.connectors.base import SinkContext
from wallaroo.connectors.kafka.producer_records import packer
from wallaroo.connectors.kafka.sink import KafkaSink
from wallaroo.connectors.output_block import OutputBlock

KEYS = 7
PATIENCE = 60


def outputs_of(number):
    """Return the pairs of value and key of a block; some blocks have none for this sink, some have many."""
    some = random.Random(number)
    count = some.choice([0, 1, 3, 50, 2000])
    return [(f"{number}:{index}", f"key {some.randrange(KEYS)}") for index in range(count)]


def block_of(number, outputs=None, ended=lambda _: None, max_message_size=100_000):
    """Return a block as the egress hands it over: in bodies, as memoryviews."""
    pack = packer(max_message_size)
    messages = [pack(output) for output in (outputs_of(number) if outputs is None else outputs)]
    half = len(messages) // 2
    parts = [messages[:half], messages[half:]]
    bodies = [memoryview(b"".join(part)) for part in parts]
    return OutputBlock(number, bodies, lengths=[array("I", map(len, part)) for part in parts], ended=ended)


def by_key(pairs):
    """Return values by key, in order."""
    found = {}
    for value, key in pairs:
        found.setdefault(key, []).append(value)
    return found


def expected(numbers):
    return by_key(pair for number in numbers for pair in outputs_of(number))


def found_in(messages):
    return by_key((message.value().decode(), message.key().decode()) for message in messages)


class Written:
    """A sink, and what it has reported."""

    def __init__(self, brokers, topic, application, settings=None, **options):
        self.notices, self.durable, self.reports = [], [], []
        self.holding_up = []
        """For how many seconds it takes to make a block durable, the next one last."""
        self.stopping = threading.Event()
        self.changed = threading.Condition()
        context = SinkContext(self.stopping, self.notices.append, application, self._make_durable)
        given = {"bootstrap.servers": brokers, "reconnect.backoff.max.ms": 200, **(settings or {})}
        self.sink = KafkaSink(topic, given, context, **options)

    def _make_durable(self, number):
        self.durable.append(number)
        if self.holding_up:
            time.sleep(self.holding_up.pop())

    def deliver(self, number, outputs=None, **options):
        self.sink.deliver(block_of(number, outputs, lambda error: self._report(number, error), **options))

    def _report(self, number, error):
        with self.changed:
            self.reports.append(number if error is None else error)
            self.changed.notify_all()

    def wait_for(self, count):
        """Return the first reports, when there are so many."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.reports) >= count, PATIENCE), (self.reports, self.notices)
            return self.reports[:count]


def main(brokers, topic, application, first, end):
    written = Written(brokers, topic, application)
    told = 0
    for number in range(int(first), int(end)):
        written.deliver(number)
        # As the window of the application does: some blocks are in flight.
        while number - int(first) - told > 20:
            told = _tell(written, told)
    while told < int(end) - int(first):
        told = _tell(written, told)
    written.sink.close()


def _tell(written, told):
    [report] = written.wait_for(told + 1)[told:]
    sys.stdout.write(f"{json.dumps(report, default=str)}\n")
    sys.stdout.flush()
    if not isinstance(report, int):
        sys.exit("the sink has failed")
    return told + 1


if __name__ == "__main__":
    main(*sys.argv[1:])
