"""The Kafka sink: a thread that writes blocks to a topic, as many at a time as have come while it wrote the last."""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from wallaroo.backoff import Backoff
from wallaroo.connectors.base import SinkContext, StoppedError
from wallaroo.connectors.kafka.producers import (
    NO_ANSWER,
    FencedError,
    IdempotentProducer,
    TransactionalProducer,
    error_of,
)
from wallaroo.connectors.output_block import OutputBlock
from wallaroo.errors import AddressError
from wallaroo.notices import REPORT_AGAIN_SECONDS, Condition

_BATCH_BYTES = 4 << 20
_REPORT_AFTER_SECONDS = 5.0
_STOPPING_TIMEOUT_SECONDS = 5.0
_LAST_SECONDS = 15.0
_FIRST_RETRY_SECONDS = 0.1
_LONGEST_RETRY_SECONDS = 2.0


class KafkaSink:
    """Writes to a topic.

    Args:
        topic: The topic.
        settings: The settings of librdkafka that connect to the brokers, and those of the user.
        context: What the sinks of a run share.
        exactly_once: Write in transactions, so that those who read committed messages have every output once.
        max_produce_buffer_ms: How long to wait for further blocks before some are written.
        max_message_size: How large the value and the key of a message can be, in bytes.
    """

    def __init__(  # noqa: PLR0913 - the options of a sink
        self,
        topic: str,
        settings: Mapping[str, Any],
        context: SinkContext,
        *,
        exactly_once: bool = True,
        max_produce_buffer_ms: int = 0,
        max_message_size: int = 100_000,
    ) -> None:
        self.name = f"kafka://{settings['bootstrap.servers']}/{topic}"
        self._linger = max_produce_buffer_ms / 1000
        self._context = context
        self._missing = Condition(context.notice, interval=REPORT_AGAIN_SECONDS)
        self._id = transactional_id(context.application, topic)
        self._producer = (
            TransactionalProducer(topic, settings, max_message_size, self._waits, self._id, context.make_durable)
            if exactly_once
            else IdempotentProducer(topic, settings, max_message_size, self._waits)
        )
        self._stuck_since: float | None = None
        self._changed = threading.Condition()
        self._blocks: deque[OutputBlock] = deque()
        self._is_closing = False
        self._thread: threading.Thread | None = None

    def connect(self) -> None:
        """Start connecting, and writing what comes."""
        with self._changed:
            if self._thread is None and not self._is_closing:
                self._thread = threading.Thread(target=self._run, name="wallaroo-kafka-sink", daemon=True)
                self._thread.start()

    def deliver(self, block: OutputBlock) -> None:
        """Take one block, to be written soon."""
        self.connect()
        with self._changed:
            self._blocks.append(block)
            self._changed.notify()

    def close(self) -> None:
        """Write what has come, unless the brokers do not take it, and disconnect."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(_LAST_SECONDS)

    def _run(self) -> None:
        batch: list[OutputBlock] = []
        try:
            self._persist(self._producer.open)
            while batch := self._take():
                self._persist(lambda: self._producer.write(batch))
                for block in batch:
                    block.delivered()
        except Exception as error:  # noqa: BLE001 - the egress raises it in its thread
            self._fail(batch, error)
        finally:
            self._producer.discard()

    def _fail(self, batch: list[OutputBlock], error: Exception) -> None:
        """Report an error for the first block that is not written, also if it is still to come."""
        if not batch:
            with self._changed:
                self._changed.wait_for(lambda: self._blocks or self._is_closing)
                batch = list(self._blocks)
        if batch:
            batch[0].failed(error)

    def _take(self) -> list[OutputBlock]:
        """Return the blocks that have come, up to a size; none if the sink is being closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._blocks or self._is_closing)
            if self._linger and self._blocks:
                self._changed.wait_for(self._is_enough, self._linger)
            batch: list[OutputBlock] = []
            size = 0
            while self._blocks and (not batch or size + self._blocks[0].size <= _BATCH_BYTES):
                batch.append(self._blocks.popleft())
                size += batch[-1].size
            return batch

    def _is_enough(self) -> bool:
        return self._is_closing or sum(block.size for block in self._blocks) >= _BATCH_BYTES

    def _persist(self, step: Callable[[], None]) -> None:
        """Do something with an open producer, again and again until it succeeds."""
        backoff = Backoff(_FIRST_RETRY_SECONDS, longest=_LONGEST_RETRY_SECONDS, jitter=0.3)
        while True:
            try:
                self._producer.open()
                step()
            except (KafkaException, SystemError) as failed:
                error = error_of(failed)
                self._producer.discard()
                if error.code() in _FINAL:
                    raise AddressError(f"Cannot write to {self.name}: {self._reason(error)}. {_WAY_ON}") from failed
                self._waits(error)
                time.sleep(backoff.next())
            except FencedError:
                raise AddressError(
                    f"Cannot write to {self.name}: another process writes the outputs of this application's state, "
                    f"with the transactional id {self._id}. Is a copy of the application's directory in use? {_WAY_ON}"
                ) from None
            else:
                self._stuck_since = None
                self._missing.end(f"Writing to {self.name} again.")
                return

    def _waits(self, error: KafkaError) -> None:
        """Report what is waited for; give up if the application is being stopped."""
        now = time.monotonic()
        self._stuck_since = now if self._stuck_since is None else self._stuck_since
        stuck = now - self._stuck_since
        is_passing = error.retriable() or error.code() in _PASSING
        if not is_passing or stuck > _REPORT_AFTER_SECONDS:
            self._missing.begin(f"Waiting for {self.name} ({self._reason(error)}); retrying until it takes outputs.")
        is_ending = self._is_closing or self._context.stopping.is_set()
        if is_ending and stuck > _STOPPING_TIMEOUT_SECONDS:
            raise StoppedError

    def _reason(self, error: KafkaError) -> str:
        if (known := _REASONS.get(error.code())) is not None:
            return known.format(id=self._id)
        # The client names its connection, and counts.
        refused = re.search(r"failed: (.+?) \(after", error.str())
        return refused[1].lower() if refused else error.str()


def transactional_id(application: str, topic: str) -> str:
    """Return the transactional id of a sink, and the group that has the number of the last block.

    `application` is the id of the application's state, which changes only with --reset. So a process that resumes a
    state takes over from those before it.

    >>> transactional_id("6f1c3f0d8a3b4b0f9d0a6a1f2f3e4d5c", "counts")
    'wallaroo-6f1c3f0d8a3b4b0f9d0a6a1f2f3e4d5c-counts'
    """
    return f"wallaroo-{application}-{topic}"


_WAY_ON = "Nothing is lost: the same command continues with what was not written."

_NOT_AUTHORISED = "the user is not authorised to "
_REASONS: dict[int, str] = {
    KafkaError._TIMED_OUT: "no broker answers",  # noqa: SLF001 - so named, here and below.
    KafkaError._ALL_BROKERS_DOWN: "no broker answers",  # noqa: SLF001
    KafkaError._UNKNOWN_TOPIC: "there is no such topic",  # noqa: SLF001
    KafkaError.UNKNOWN_TOPIC_OR_PART: "there is no such topic",
    KafkaError._UNKNOWN_PARTITION: "the topic does not have a partition that the encoder names",  # noqa: SLF001
    KafkaError.TOPIC_AUTHORIZATION_FAILED: _NOT_AUTHORISED + "write to the topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: _NOT_AUTHORISED + "use the group {id}",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _NOT_AUTHORISED + "use the transactional id {id}",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: _NOT_AUTHORISED + "write to the cluster",
    KafkaError.MSG_SIZE_TOO_LARGE: (
        "the topic takes no messages, or batches, as large as max_message_size allows; give the sink the topic's "
        "max.message.bytes, or less"
    ),
    KafkaError.INVALID_RECORD: "the topic takes no such messages, perhaps because it is compacted and they have no key",
}
_PASSING = {
    *NO_ANSWER,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}
"""What is reported only if it lasts."""
_FINAL = {
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.INVALID_RECORD,
    KafkaError.INVALID_TRANSACTION_TIMEOUT,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.POLICY_VIOLATION,
    KafkaError.UNSUPPORTED_VERSION,
    KafkaError._UNSUPPORTED_FEATURE,  # noqa: SLF001
    KafkaError._INVALID_ARG,  # noqa: SLF001
}
"""What does not end by waiting."""
