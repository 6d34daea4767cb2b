"""How `wallaroo receive` reads a topic of Kafka: committed messages, each on a line of its own."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

from wallaroo.cli import screen
from wallaroo.cli.kafka_topic import Settings, Topic
from wallaroo.cli.receive_framing import Data
from wallaroo.errors import WallarooError
from wallaroo.sizes import plural

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

    from wallaroo.cli.commands.receive import Tally, Until

_AT_ONCE = 10_000
_LOOK_SECONDS = 0.1
_PATIENCE_SECONDS = 10.0


class TopicReader:
    """Passes the messages of a topic to `output`, in the order of each partition."""

    def __init__(
        self, topic: Topic, partitions: list[int], settings: Settings, output: Callable[[Data], None], until: Until
    ) -> None:
        from confluent_kafka import Consumer  # noqa: PLC0415 - other commands do without Kafka.

        self._topic = topic
        self._partitions = partitions
        self._separator = settings.separator
        self._output = output
        self._until = until
        own = {
            # A group has to be named; it is never joined, and nothing is committed to it.
            "group.id": f"wallaroo-receive-{uuid.uuid4()}",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 100,
            "fetch.queue.backoff.ms": 10,
            "error_cb": self._on_error,
        }
        self._consumer: Consumer = Consumer(settings.client(topic, **own))
        self._told: set[str] = set()

    def run(self, tally: Tally, *, from_beginning: bool) -> None:
        """Read until a condition of `until` is met."""
        from confluent_kafka import TopicPartition  # noqa: PLC0415

        with closing(self._consumer):
            starts = [TopicPartition(self._topic.name, each) for each in self._partitions]
            for start in starts:
                ends = self._consumer.get_watermark_offsets(start, _PATIENCE_SECONDS, cached=False)
                if ends is None:
                    raise WallarooError(f"partition {start.partition} of {self._topic} cannot be reached")
                start.offset = ends[0 if from_beginning else 1]
            self._consumer.assign(starts)
            screen.say(f"reading {self._topic} from {'the beginning' if from_beginning else 'now on'}")
            started = time.monotonic()
            while self._goes_on(tally, started):
                self._take(tally)

    def _goes_on(self, tally: Tally, started: float) -> bool:
        until, now = self._until, time.monotonic()
        if until.messages is not None and tally.messages >= until.messages:
            return False
        if until.seconds is not None and now >= started + until.seconds:
            return False
        # The `idle` time starts with the first message: a sender may need time to start.
        return until.idle is None or not tally.messages or now < tally.last + until.idle

    def _take(self, tally: Tally) -> None:
        room = _AT_ONCE if self._until.messages is None else min(_AT_ONCE, self._until.messages - tally.messages)
        lines = list(self._lines(self._consumer.consume(room, _LOOK_SECONDS)))
        if lines:
            tally.last = time.monotonic()
            tally.first = tally.first or tally.last
            # Counted before it is written: a user who sees the data and then interrupts finds it in the summary.
            tally.messages += len(lines)
            tally.bytes += sum(map(len, lines)) - len(lines)
            self._output(b"".join(lines))

    def _lines(self, messages: list[Message]) -> Iterator[bytes]:
        for message in messages:
            if (error := message.error()) is not None:
                raise WallarooError(f"{self._topic} cannot be read: {error.str()}")
            value: Any = message.value() or b""
            if self._separator is not None:
                key: Any = message.key() or b""
                value = key + self._separator + value
            yield value + b"\n"

    def _on_error(self, error: Any) -> None:
        """Tell once that something is in the way; the client keeps trying."""
        if error.str() not in self._told:
            self._told.add(error.str())
            screen.say(f"{error.str()} (trying again)")


def report(tally: Tally, partitions: int) -> None:
    """Tell what was received."""
    seconds = tally.last - tally.first
    screen.say(
        f"received {plural(tally.messages, 'message')} ({plural(tally.bytes, 'byte')}) from "
        f"{plural(partitions, 'partition')} in {seconds:.2f} s{screen.rate(tally.messages, 'message', seconds)}"
    )
