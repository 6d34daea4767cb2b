"""Writes blocks to a topic: in transactions, together with the number of the last block, or without."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from wallaroo.connectors.kafka.producer_records import records
from wallaroo.connectors.output_block import OutputBlock

OnWait = Callable[[KafkaError], None]
"""Called again and again while the brokers are waited for, with the reason; raises StoppedError to end the wait."""

_CALL_SECONDS = 1.0
_HUNG_SECONDS = 10.0
"""How long a call can take that should end after `_CALL_SECONDS`. Some do not if a broker goes away meanwhile."""
_PATIENCE_SECONDS = 20.0
"""How long a call is repeated. When a broker goes away, or a partition has no leader for a while, a client may wait for
an answer that never comes; a new one does not."""
_END_SECONDS = 3.0
_RETRY_SECONDS = 0.02
_FRAMING_BYTES = 1024
"""More than what Kafka adds to a message."""
_NUMBER_PARTITION = 0
"""The partition as whose offset the number of a block is kept: every topic has it."""
_MOST_SOCKET_MS = 10_000
_TRANSACTION_MS = 60_000
_LINGER_MS = 20
NO_ANSWER = {KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}  # noqa: SLF001 - so named.
"""The errors of calls that may succeed when they are made again."""

_LOGGER = logging.getLogger("wallaroo.kafka")
"""Takes what librdkafka would write to the screen."""
_LOGGER.addHandler(logging.NullHandler())

T = TypeVar("T")


class FencedError(Exception):
    """Another process writes the outputs of the same application's state."""


class IdempotentProducer:
    """Writes without transactions: after a crash, blocks whose end was not recorded are written again.

    What cannot be done raises a KafkaException. After `discard` the producer can be opened again.

    Args:
        topic: The topic.
        settings: Those of librdkafka that the client and the user need.
        max_message_size: How large the value and the key of a message can be, in bytes.
        on_wait: Called while the brokers are waited for.
    """

    _stalled_seconds = math.inf
    """How long no message needs to be acknowledged. A new client could not know which ones the last one has written."""

    def __init__(self, topic: str, settings: Mapping[str, Any], max_message_size: int, on_wait: OnWait) -> None:
        self._topic = topic
        self._connection = dict(settings)
        self._settings = _settings_of_producer(settings, max_message_size)
        self._on_wait = on_wait
        self._client: Producer | None = None
        self._refusals: list[KafkaError] = []
        """Why messages of the last blocks could not be written."""
        self._trouble: KafkaError | None = None
        """What is wrong with a connection, as far as the client knows."""
        self._is_cut_off = False
        """Whether all connections were lost since the client was made."""

    def open(self) -> None:
        """Connect, unless connected, and make sure that the topic is there."""
        if self._client is None:
            self._client = self._new_client()

    def write(self, blocks: Sequence[OutputBlock]) -> None:
        """Write blocks, and wait until all their messages are acknowledged."""
        assert self._client is not None
        self._produce(self._client, blocks)

    def discard(self) -> None:
        """Disconnect, and forget what has not been written."""
        client, self._client = self._client, None
        if client is not None:
            self._abandon(client)

    def _abandon(self, client: Producer) -> None:
        _ended(client.purge)

    def _new_client(self) -> Producer:
        self._trouble, self._is_cut_off = None, False
        client = Producer(
            {**self._settings, "on_delivery": self._note_refusal, "error_cb": self._note_trouble, "logger": _LOGGER}
        )
        try:
            self._require_topic(client)
        except BaseException:
            self._abandon(client)
            raise
        return client

    def _require_topic(self, client: Producer) -> None:
        topics = self._patiently(lambda seconds: client.list_topics(self._topic, seconds), client.poll).topics
        if (error := topics[self._topic].error) is not None:
            raise KafkaException(error)

    def _note_refusal(self, error: KafkaError, _message: Any) -> None:
        self._refusals.append(error)

    def _note_trouble(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 - so named.
            self._is_cut_off = True
        else:
            self._trouble = error

    def _wait(self, error: KafkaError) -> None:
        self._on_wait(self._trouble if self._trouble is not None and error.code() in NO_ANSWER else error)

    def _produce(self, client: Producer, blocks: Sequence[OutputBlock]) -> None:
        """Send the messages of blocks, those of a key in their order, and wait until all are acknowledged."""
        self._refusals.clear()
        topic, produce = self._topic, client.produce
        for block in blocks:
            for value, key, partition in records(block):
                try:
                    produce(topic, value, key, partition)
                except BufferError:
                    self._produce_later(client, value, key, partition)
            client.poll(0)
        before, deadline = 0, math.inf
        while left := client.flush(_CALL_SECONDS):
            if left != before:
                before, deadline = left, time.monotonic() + self._stalled_seconds
            error = KafkaError(KafkaError._TIMED_OUT)  # noqa: SLF001 - so named.
            if time.monotonic() > deadline:
                raise KafkaException(error)
            self._wait(error)
        if self._refusals:
            raise KafkaException(self._refusals[0])

    def _produce_later(self, client: Producer, value: bytes | None, key: bytes | None, partition: int) -> None:
        """Queue a message when there is room for it: the user may have set a limit."""
        while True:
            client.poll(_RETRY_SECONDS)
            with contextlib.suppress(BufferError):
                client.produce(self._topic, value, key, partition)
                return
            self._wait(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001

    def _patiently(self, call: Callable[[float], T], poll: Callable[[float], Any]) -> T:
        """Make a call until it is answered; repeated, it continues where it was.

        A client that has no answer for long is given up by raising the error, also if the brokers are away.
        """
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                return _within(_HUNG_SECONDS, lambda: call(_CALL_SECONDS))
            except _HungError:
                raise
            except KafkaException as failed:
                error: KafkaError = failed.args[0]
                is_passing = not error.fatal() and (error.retriable() or error.code() in NO_ANSWER)
                if not is_passing or time.monotonic() > deadline:
                    raise
                poll(0)
                self._wait(error)
                time.sleep(_RETRY_SECONDS)


class TransactionalProducer(IdempotentProducer):
    """Writes in transactions, with the number of the last block in each, and drops blocks that have been written.

    The number is the committed offset of a group that nobody consumes with. Beside it is an id of this process: if the
    brokers no longer accept what it writes, the id says whether another process has taken over, or whether they have
    only ended a transaction that took too long.

    Args:
        topic: The topic.
        settings: Those of librdkafka that the client and the user need.
        max_message_size: How large the value and the key of a message can be, in bytes.
        on_wait: Called while the brokers are waited for.
        name: The transactional id, and the name of the group.
        make_durable: Has a block synced to disk before its number is used.
    """

    _stalled_seconds = _PATIENCE_SECONDS

    def __init__(  # noqa: PLR0913, PLR0917 - those of the other producer, and its own
        self,
        topic: str,
        settings: Mapping[str, Any],
        max_message_size: int,
        on_wait: OnWait,
        name: str,
        make_durable: Callable[[int], None],
    ) -> None:
        super().__init__(topic, settings, max_message_size, on_wait)
        del self._settings["message.timeout.ms"]  # It follows from the timeout of transactions.
        self._settings["transactional.id"] = name
        self._name = name
        self._make_durable = make_durable
        self._process = uuid.uuid4().hex
        self._has_claimed = False
        """Whether the number has been committed with the id of this process."""
        self._group: Any = None
        self._next = 0
        """The blocks before this one are in the topic."""

    def open(self) -> None:
        """Take over from processes before this one, and find out which blocks they have written.

        Raises:
            FencedError: Another process has taken over from this one.
        """
        if self._client is not None:
            return
        if self._has_claimed:
            # Asked first, so that a process that goes on is not interrupted by one that has to end.
            self._check_claim(self._committed("read_uncommitted")[1])
        self._client = client = self._new_client()
        self._patiently(client.init_transactions, client.poll)
        # The transactions of others are complete now, so none of them changes the number any more.
        self._next, owner = self._committed("read_committed")
        # Another process may have taken over in between; it does so again, as nobody has since.
        self._check_claim(owner)
        client.begin_transaction()
        self._commit(client, self._next)
        self._has_claimed = True

    def _check_claim(self, owner: str | None) -> None:
        # Brokers forget a number that has not changed for a week or so: then nobody has taken over.
        if self._has_claimed and owner not in {None, self._process}:
            raise FencedError

    def write(self, blocks: Sequence[OutputBlock]) -> None:
        """Write blocks in one transaction."""
        assert self._client is not None
        left = [block for block in blocks if block.number >= self._next]
        if not left:
            return
        last = left[-1].number
        self._client.begin_transaction()
        # The commit would wait for the messages, too, but without an end while there are no brokers.
        self._produce(self._client, left)
        self._make_durable(last)
        self._commit(self._client, last + 1)
        self._next = last + 1

    def _commit(self, client: Producer, end: int) -> None:
        """Commit the transaction, and with it that the blocks before `end` are written."""
        number = TopicPartition(self._topic, _NUMBER_PARTITION, end, self._process)
        self._patiently(lambda seconds: client.send_offsets_to_transaction([number], self._group, seconds), client.poll)
        self._patiently(client.commit_transaction, client.poll)

    def _committed(self, level: str) -> tuple[int, str | None]:
        """Return the first block that is not written, and the process that has committed this.

        With `read_committed` it waits for the end of a transaction that would change the number.
        """
        client = Consumer(
            {
                **self._connection,
                "group.id": self._name,
                "isolation.level": level,
                "error_cb": self._note_trouble,
                "logger": _LOGGER,
            }
        )
        try:
            asked = [TopicPartition(self._topic, _NUMBER_PARTITION)]
            [found] = self._patiently(lambda seconds: client.committed(asked, seconds), lambda _: self._poll(client))
            if found.error is not None:
                raise KafkaException(found.error)
            self._group = client.consumer_group_metadata()
        finally:
            _ended(client.close)
        # Without an offset the number is negative.
        return max(found.offset, 0), found.metadata

    def _poll(self, client: Consumer) -> None:
        """Take what a consumer has to say; it returns no messages, as none is assigned to it."""
        message = client.poll(0)
        if message is not None and (error := message.error()) is not None:
            self._note_trouble(error)

    def _wait(self, error: KafkaError) -> None:
        super()._wait(error)
        if self._is_cut_off and self._client is not None:
            # A client that has lost the coordinator may take a minute to find it again; a new one does not.
            raise KafkaException(self._trouble or error)

    def _abandon(self, client: Producer) -> None:
        # Consumers would wait for an open transaction until the brokers end it.
        _ended(lambda: client.abort_transaction(_CALL_SECONDS))
        super()._abandon(client)


def _within(seconds: float, call: Callable[[], T]) -> T:
    """Make a call that may hang; then an error is raised, and the call goes on in a thread of its own."""
    outcome: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()

    def run() -> None:
        try:
            outcome.put((call(), None))
        except BaseException as error:  # noqa: BLE001 - it is raised below
            outcome.put((None, error))

    threading.Thread(target=run, name="wallaroo-kafka-call", daemon=True).start()
    try:
        result, error = outcome.get(timeout=seconds)
    except Empty:
        raise _HungError(KafkaError(KafkaError._TIMED_OUT)) from None  # noqa: SLF001 - so named.
    if error is not None:
        raise error
    return result  # type: ignore[return-value] # It is the result if there is no error.


def _ended(call: Callable[[], Any]) -> None:
    """Make a last call to a client that may be of no use any more."""
    with contextlib.suppress(KafkaException, SystemError):
        _within(_END_SECONDS, call)


def error_of(failed: KafkaException | SystemError) -> KafkaError:
    """Return what the client has raised.

    If callbacks are called at the moment of a fatal error, it comes as a SystemError, or even without its reason.

    >>> error_of(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))).code()
    3
    >>> lost = SystemError("<method 'flush' of 'cimpl.Producer' objects> returned NULL without setting an exception")
    >>> error_of(lost).name()
    '_FATAL'
    """
    cause = failed.__cause__ if isinstance(failed, SystemError) else failed
    if isinstance(cause, KafkaException):
        error: KafkaError = cause.args[0]
        return error
    if "cimpl." in str(failed) and "without setting an exception" in str(failed):
        return KafkaError(KafkaError._FATAL)  # noqa: SLF001 - so named.
    raise failed


class _HungError(KafkaException):
    """A call did not return in time."""


def _settings_of_producer(settings: Mapping[str, Any], max_message_size: int) -> dict[str, Any]:
    transaction_ms = int(settings.get("transaction.timeout.ms", _TRANSACTION_MS))
    return {
        # As the producers in Java do: then a key has one partition, whoever writes it.
        "partitioner": "murmur2_random",
        # What sinks are given is bounded in any case.
        "queue.buffering.max.messages": 0,
        # The brokers are still completing a transaction when the next one begins, which is then retried; with the usual
        # 100 ms between retries, most of the time of a transaction would be such a pause.
        "retry.backoff.ms": 1,
        "retry.backoff.max.ms": 100,
        # Some calls end only then, whatever their own timeout.
        "socket.timeout.ms": min(_MOST_SOCKET_MS, transaction_ms),
        # Blocks are written until they are flushed, which does not wait for this; it only makes the batches larger.
        "linger.ms": _LINGER_MS,
        # A topic refuses batches that are larger than its largest message.
        "batch.size": max_message_size,
        **settings,
        # Messages have been checked before; here only Kafka's framing is added.
        "message.max.bytes": max_message_size + _FRAMING_BYTES,
        "enable.idempotence": True,
        "delivery.report.only.error": True,
        # A message that is given up would be missing, and later ones of its key would overtake it.
        "message.timeout.ms": 0,
    }
