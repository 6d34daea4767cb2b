"""The half of a Kafka source that runs in workers: reads ranges of offsets from the brokers.

Consumers are kept open from block to block. A worker gets ranges of a partition in ascending order, with the ranges of
other workers between them. Short gaps are read and dropped, because that keeps what the client has fetched ahead; for
long ones the consumer seeks.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from wallaroo.connectors.kafka.settings import client_settings
from wallaroo.errors import WallarooError
from wallaroo.interfaces import takes_message
from wallaroo.kafka_message import KafkaMessage

if TYPE_CHECKING:
    from wallaroo.connectors.base import Piece
    from wallaroo.connectors.kafka.config import KafkaSourceConfig

_MAX_CONSUMERS = 8
"""How many partitions are kept open at once; a consumer has threads and buffers of its own."""
_SKIPPED_AT_MOST = 8192
"""A gap of so many messages is read through; beyond that, seeking is faster."""
_MESSAGES_AT_ONCE = 10_000
_PIECE_MESSAGES = 4096
_PIECE_BYTES = 512 << 10
_POLL_SECONDS = 1.0
_ANSWER_SECONDS = 10.0

_SETTINGS = {
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    # A consumer that has something does not ask for more. Otherwise each would fetch every message by itself as it
    # arrives: at a thousand a second, the consumers of all workers and partitions together kept a broker busy.
    "queued.min.messages": 1,
    # How often it looks whether what it has was taken, which costs a little of the processor even when nothing comes.
    "fetch.queue.backoff.ms": 2,
    # A consumer that moves to another partition first waits for its last request.
    "fetch.wait.max.ms": 100,
    "queued.max.messages.kbytes": 8 << 10,
}

Received = Any
"""A `Message` of the client. By its types, an offset could be missing, which it never is in what is received."""

Decodable = Callable[[Received], Any]
"""Turns a message of the client into what the decoder is given."""


class KafkaReader:
    """Reads the messages of a topic by partition and offset."""

    def __init__(self, config: KafkaSourceConfig, place: Mapping[str, Any]) -> None:
        self._topic: str = place["topic"]
        self._skip_gone = bool(place.get("skip_damaged"))
        # Nothing is committed by workers, and no group is joined.
        self._settings = {**client_settings(config, place["brokers"]), **_SETTINGS, "group.id": "wallaroo-reader"}
        self._payload: Decodable = _value_and_message if takes_message(config.decoder) else _value
        self._open: OrderedDict[int, _PartitionReader] = OrderedDict()

    def read(self, first: int, end: int, lane: int = 0) -> Iterator[Piece]:
        """Yield the messages from `first` to `end`, without `end`, of a partition, piece by piece.

        Raises:
            WallarooError: Some of them are no longer in Kafka.
        """
        return _pieces(self._partition(lane).messages(first, end), self._payload)

    def _partition(self, lane: int) -> _PartitionReader:
        """Return the reader of a partition; opens it, in the place of the least recently used one if necessary."""
        partition = self._open.pop(lane, None)
        if partition is None:
            consumer = self._open.popitem(last=False)[1].consumer if len(self._open) >= _MAX_CONSUMERS else None
            partition = _PartitionReader(
                consumer or Consumer(self._settings), self._topic, lane, skip_gone=self._skip_gone
            )
        self._open[lane] = partition
        return partition


class _PartitionReader:
    """A consumer that is at some position of one partition."""

    def __init__(self, consumer: Consumer, topic: str, lane: int, *, skip_gone: bool) -> None:
        self.consumer = consumer
        self._topic = topic
        self._lane = lane
        self._skip_gone = skip_gone
        self._position: int | None = None
        """The offset of the next message that the consumer returns, or of a later one if that is missing."""
        self._ahead: list[Received] = []
        """Messages that the consumer has returned, and that belong to a later range."""

    def messages(self, first: int, end: int) -> Iterator[list[Received]]:
        """Yield the messages in a range of offsets, some at a time."""
        if self._position is None or not self._position <= first <= self._position + _SKIPPED_AT_MOST:
            self._seek(first)
        try:
            while (batch := self._before(end)) is not None:
                if batch and batch[0].offset() < first:
                    batch = [message for message in batch if message.offset() >= first]
                if batch:
                    yield batch
        except WallarooError:
            self._position = None  # The consumer has stopped, and returns nothing more until it is assigned again.
            raise

    def _seek(self, offset: int) -> None:
        self._ahead = []
        self._position = offset
        self.consumer.assign([TopicPartition(self._topic, self._lane, offset)])

    def _before(self, end: int) -> list[Received] | None:
        """Return some messages before `end`, perhaps none yet, or None if there are no more."""
        assert self._position is not None
        if self._position >= end:
            return None
        batch, self._ahead = self._ahead or self._fetched(end), []
        if not batch:
            return []
        if batch[-1].offset() >= end:
            keep = next(index for index, message in enumerate(batch) if message.offset() >= end)
            batch, self._ahead = batch[:keep], batch[keep:]
            self._position = end
        else:
            self._position = max(self._position, batch[-1].offset() + 1)
        return batch

    def _fetched(self, end: int) -> list[Received]:
        """Return what the consumer has, or waits for; moves the position if no messages are left before another one."""
        assert self._position is not None
        found = self.consumer.poll(_POLL_SECONDS)
        if found is None:
            return []
        # What is there already, without waiting for more.
        more = min(_MESSAGES_AT_ONCE, max(end - self._position - 1, 1))
        batch = [found, *self.consumer.consume(more, 0)]
        if not any(map(Message.error, batch)):
            return batch
        for message in batch:
            if (error := message.error()) is not None:
                self._handle(error, message.offset(), end)
        return [message for message in batch if message.error() is None]

    def _handle(self, error: KafkaError, offset: int | None, end: int) -> None:
        """Handle what the client reports in the place of a message; what is not handled here, it retries itself."""
        assert self._position is not None
        if error.code() == KafkaError._PARTITION_EOF and offset is not None:  # noqa: SLF001 - its public name
            # What is before that offset and was not returned is no message: it was aborted or compacted, or is a mark
            # of a transaction.
            self._position = max(self._position, offset)
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
            self._skip_what_is_gone(end)
        elif error.code() in _REFUSED:
            raise WallarooError(f"The topic {self._topic!r} cannot be read: {error.str()}.")

    def _skip_what_is_gone(self, end: int) -> None:
        """Continue after offsets that no longer exist, if the user says so."""
        assert self._position is not None
        earliest = self._earliest()
        if earliest <= self._position:
            self._seek(self._position)  # The brokers disagreed for a moment, as while they elect a leader.
            return
        if not self._skip_gone:
            last = min(earliest, end) - 1
            raise WallarooError(
                f"The messages {self._position} to {last} of partition {self._lane} of the topic {self._topic!r} have "
                "not been processed, and Kafka has removed them (retention). If they can be restored, do that and run "
                "the same command again; otherwise run it with --skip-damaged, which continues without them"
            )
        self._seek(earliest)

    def _earliest(self) -> int:
        while True:
            try:
                earliest, _ = self.consumer.get_watermark_offsets(
                    TopicPartition(self._topic, self._lane), timeout=_ANSWER_SECONDS
                )
            except KafkaException:
                continue  # The broker is away; it is waited for, as when reading.
            return int(earliest)


_REFUSED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    }
)


def _value(message: Received) -> bytes:
    value: bytes | None = message.value()
    return value or b""


def _value_and_message(message: Received) -> tuple[bytes, KafkaMessage]:
    kind, timestamp = message.timestamp()
    about = KafkaMessage(
        message.key(),
        timestamp if kind else None,
        tuple(message.headers() or ()),
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
    )
    return _value(message), about


def _pieces(batches: Iterator[list[Received]], payload: Decodable) -> Iterator[Piece]:
    """Yield messages in pieces that depend only on the messages, not on how they have arrived."""
    piece = _Growing()
    for batch in batches:
        for run in _runs(batch):
            first = run[0].offset()
            if piece.payloads and piece.end != first:
                yield piece.take()
            yield from piece.add(first, [payload(message) for message in run], [len(_value(each)) for each in run])
    if piece.payloads:
        yield piece.take()


def _runs(batch: list[Received]) -> Iterator[Sequence[Received]]:
    """Yield messages in runs of consecutive offsets."""
    if batch[-1].offset() - batch[0].offset() == len(batch) - 1:
        yield batch
        return
    low = 0
    for at in range(1, len(batch) + 1):
        if at == len(batch) or batch[at].offset() != batch[at - 1].offset() + 1:
            yield batch[low:at]
            low = at


class _Growing:
    """A piece that is being gathered."""

    def __init__(self) -> None:
        self.first = 0
        self.payloads: list[Any] = []
        self._bytes = 0

    @property
    def end(self) -> int:
        """Return the offset after the last message."""
        return self.first + len(self.payloads)

    def take(self) -> Piece:
        """Return the piece, and start another one."""
        piece = self.first, self.payloads
        self.payloads = []
        self._bytes = 0
        return piece

    def add(self, first: int, payloads: list[Any], sizes: list[int]) -> Iterator[Piece]:
        """Add consecutive messages; yield each piece that is full."""
        while payloads:
            if not self.payloads:
                self.first = first
            room = _PIECE_MESSAGES - len(self.payloads)
            number, size = min(room, len(payloads)), sum(sizes[:room])
            if self._bytes + size >= _PIECE_BYTES:
                number = _completing(self._bytes + end for end in accumulate(sizes))
                size = sum(sizes[:number])
            self.payloads += payloads[:number]
            self._bytes += size
            payloads, sizes, first = payloads[number:], sizes[number:], first + number
            if len(self.payloads) == _PIECE_MESSAGES or self._bytes >= _PIECE_BYTES:
                yield self.take()


def _completing(ends: Iterator[int]) -> int:
    """Return how many messages complete a piece: those before the limit, and the one that reaches it.

    >>> _completing(iter([100, _PIECE_BYTES - 1, _PIECE_BYTES + 1, _PIECE_BYTES + 9]))
    3
    """
    return next(number for number, end in enumerate(ends, 1) if end >= _PIECE_BYTES)
