"""How `wallaroo send` writes to a topic of Kafka, and `wallaroo receive` reads one.

The brokers confirm each message that is sent. Only committed messages are received, each on a line of its own.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

from wallaroo.cli import screen
from wallaroo.cli.framing import Data, InputError
from wallaroo.cli.kafka_topic import Settings, Topic
from wallaroo.cli.network import NotConfirmedError
from wallaroo.cli.send_input import Batch
from wallaroo.errors import WallarooError
from wallaroo.sizes import plural

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

    from wallaroo.cli.commands.receive import Tally as ReceiveTally
    from wallaroo.cli.commands.receive import Until
    from wallaroo.cli.commands.send import Tally as SendTally


_LOOK_SECONDS = 0.1
_MOMENT_SECONDS = 1.0


class TopicWriter:
    """Writes lines to a topic, which has been found; gives up when nothing is confirmed for `wait` seconds."""

    expects = "the brokers have not confirmed them yet"

    def __init__(self, topic: Topic, settings: Settings, *, wait: float | None) -> None:
        from confluent_kafka import Producer  # noqa: PLC0415 - other commands do without Kafka.

        self._topic = topic.name
        self._separator = settings.separator
        self._wait = wait
        own = {"enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 0}
        self._producer = Producer(settings.client(topic, own))
        self._confirmed = 0
        self._refused: str | None = None
        self._last_progress = time.monotonic()

    def send(self, batches: Iterable[Batch], tally: SendTally, show: Callable[[SendTally], None]) -> None:
        """Hand over every line to the client; `tally` counts them."""
        for batch in batches:
            self._producer.poll(0)
            if self._confirmed == tally.messages:
                # The input may have paused; from now on there is something to confirm.
                self._last_progress = time.monotonic()
            for line in batch:
                value, key = self._parts(line)
                self._produce(value, key, tally)
                tally.messages += 1
                tally.bytes += len(line)
            self._serve(0, tally)
            show(tally)

    def finish(self, tally: SendTally, on_wait: Callable[[], None]) -> bool:
        """Wait until the brokers have confirmed everything; return True."""
        started = self._last_progress = time.monotonic()
        told = False
        while self._confirmed < tally.messages:
            self._serve(_LOOK_SECONDS, tally)
            if not told and time.monotonic() - started >= _MOMENT_SECONDS:
                told = True
                on_wait()
        return True

    def _parts(self, line: bytes) -> tuple[bytes, bytes | None]:
        if self._separator is None:
            return line, None
        key, separator, value = line.partition(self._separator)
        if not separator:
            raise InputError(f"a line has no {self._separator.decode()!r} between key and value: {line[:80]!r}")
        return value, key

    def _produce(self, value: bytes, key: bytes | None, tally: SendTally) -> None:
        from confluent_kafka import KafkaException  # noqa: PLC0415

        while True:
            try:
                self._producer.produce(self._topic, value, key, on_delivery=self._on_delivery)
            except BufferError:
                self._serve(_LOOK_SECONDS, tally)
            except KafkaException as error:
                raise InputError(f"a message of {plural(len(value), 'byte')}: {error.args[0].str()}") from error
            else:
                return

    def _serve(self, seconds: float, tally: SendTally) -> None:
        """Take what the brokers have confirmed."""
        self._producer.poll(seconds)
        if self._refused is not None:
            raise NotConfirmedError(f"the brokers refuse a message: {self._refused}; {self._in_doubt(tally)}")
        if self._wait and time.monotonic() - self._last_progress >= self._wait:
            raise NotConfirmedError(f"the brokers have confirmed nothing for {self._wait:g} s; {self._in_doubt(tally)}")

    def _in_doubt(self, tally: SendTally) -> str:
        return f"{self._confirmed:,} of {plural(tally.messages, 'message')} are confirmed"

    def _on_delivery(self, error: Any, _message: Any) -> None:
        if error is None:
            self._confirmed += 1
            self._last_progress = time.monotonic()
        elif self._refused is None:
            self._refused = error.str()


_AT_ONCE = 10_000
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
        self._consumer: Consumer = Consumer(settings.client(topic, own))
        self._told: set[str] = set()

    def run(self, tally: ReceiveTally, *, from_beginning: bool) -> None:
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

    def _goes_on(self, tally: ReceiveTally, started: float) -> bool:
        until, now = self._until, time.monotonic()
        if until.messages is not None and tally.messages >= until.messages:
            return False
        if until.seconds is not None and now >= started + until.seconds:
            return False
        # The `idle` time starts with the first message: a sender may need time to start.
        return until.idle is None or not tally.messages or now < tally.last + until.idle

    def _take(self, tally: ReceiveTally) -> None:
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
        """Report an obstacle once; the client keeps trying."""
        if error.str() not in self._told:
            self._told.add(error.str())
            screen.say(f"{error.str()} (trying again)")


def report(tally: ReceiveTally, partitions: int) -> None:
    """Report what was received."""
    seconds = tally.last - tally.first
    screen.say(
        f"received {plural(tally.messages, 'message')} ({plural(tally.bytes, 'byte')}) from "
        f"{plural(partitions, 'partition')} in {seconds:.2f} s{screen.rate(tally.messages, 'message', seconds)}"
    )
