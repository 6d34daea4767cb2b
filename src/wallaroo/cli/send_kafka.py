"""How `wallaroo send` writes to a topic of Kafka; the brokers confirm each message."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from wallaroo.cli.framing import InputError
from wallaroo.cli.kafka_topic import Settings, Topic
from wallaroo.cli.network import NotConfirmedError
from wallaroo.cli.send_input import Batch
from wallaroo.sizes import plural

if TYPE_CHECKING:
    from wallaroo.cli.commands.send import Tally

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
        self._producer = Producer(settings.client(topic, **own))
        self._confirmed = 0
        self._refused: str | None = None
        self._last_progress = time.monotonic()

    def send(self, batches: Iterable[Batch], tally: Tally, show: Callable[[Tally], None]) -> None:
        """Hand over every line to the client; `tally` counts them."""
        self._last_progress = time.monotonic()
        for batch in batches:
            for line in batch:
                value, key = self._parts(line)
                self._produce(value, key, tally)
                tally.messages += 1
                tally.bytes += len(line)
            self._serve(0, tally)
            show(tally)

    def finish(self, tally: Tally, on_wait: Callable[[], None]) -> bool:
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

    def _produce(self, value: bytes, key: bytes | None, tally: Tally) -> None:
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

    def _serve(self, seconds: float, tally: Tally) -> None:
        """Take what the brokers have confirmed."""
        self._producer.poll(seconds)
        if self._refused is not None:
            raise NotConfirmedError(f"the brokers refuse a message: {self._refused}; {self._in_doubt(tally)}")
        if self._wait and time.monotonic() - self._last_progress >= self._wait:
            raise NotConfirmedError(f"the brokers have confirmed nothing for {self._wait:g} s; {self._in_doubt(tally)}")

    def _in_doubt(self, tally: Tally) -> str:
        return f"{self._confirmed:,} of {plural(tally.messages, 'message')} are confirmed"

    def _on_delivery(self, error: Any, _message: Any) -> None:
        if error is None:
            self._confirmed += 1
            self._last_progress = time.monotonic()
        elif self._refused is None:
            self._refused = error.str()
