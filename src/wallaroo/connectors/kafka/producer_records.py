"""How an output for Kafka travels from the worker that encodes it to the driver: a value, a key and a partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Any, NamedTuple

from wallaroo.connectors.base import Packer
from wallaroo.connectors.output_block import OutputBlock

_HEAD = Struct("<ii")
"""The partition, and the length of the key, which follows; then the value.

`_NO_KEY` stands for the length where there is no key. Where there is no value, it is `_NO_VALUE` minus the length.
"""
_NO_KEY = -1
_NO_VALUE = -2
ANY_PARTITION = -1
"""The partition of an output that goes where its key says."""
_MOST_PARTITIONS = 1 << 31


class Record(NamedTuple):
    """An output as it is sent; without a value, a compacted topic forgets the key."""

    value: bytes | None
    key: bytes | None
    partition: int


class EncoderResultError(Exception):
    """An encoder for Kafka returned something that is no message."""


class MessageTooLargeError(Exception):
    """An output is larger than `max_message_size` of its sink."""


def packer(max_message_size: int) -> Packer:
    r"""Return what packs the results of encoders for Kafka.

    An encoder returns a value, a pair `(value, key)`, or a triple `(value, key, partition)`. Value and key are bytes,
    or text for UTF-8. The key may be None, and so may the value, if there is a key; without a partition, or with None,
    the output goes where its key says.

    >>> pack = packer(max_message_size=10)
    >>> unpack(pack(("é", "k"))), unpack(pack((None, b"gone", 3)))
    (Record(value=b'\xc3\xa9', key=b'k', partition=-1), Record(value=None, key=b'gone', partition=3))
    >>> pack(("1234567", "1234"))
    Traceback (most recent call last):
        ...
    wallaroo.connectors.kafka.producer_records.MessageTooLargeError: value and key have 11 bytes; max_message_size is 10
    >>> pack(7)
    Traceback (most recent call last):
        ...
    wallaroo.connectors.kafka.producer_records.EncoderResultError: expected a value, (value, key) or (value, key, partition), got a int: 7
    """  # noqa: E501 - the error is one line.
    head = _HEAD.pack
    without_key = head(ANY_PARTITION, _NO_KEY)

    def pack(encoded: Any) -> Any:
        value: Any = encoded
        key: Any = None
        partition = ANY_PARTITION
        if type(encoded) is tuple and len(encoded) == 2:
            value, key = encoded
        elif type(encoded) is not bytes and type(encoded) is not str:
            value, key, partition = _checked_tuple(encoded)
        if type(value) is not bytes:
            value = value.encode() if type(value) is str else _checked(value, encoded, is_optional=key is not None)
        if key is not None and type(key) is not bytes:
            key = key.encode() if type(key) is str else _checked(key, encoded)
        size = len(value or b"") + len(key or b"")
        if size > max_message_size:
            raise MessageTooLargeError(f"value and key have {size} bytes; max_message_size is {max_message_size}")
        if value is None:
            return head(partition, _NO_VALUE - len(key)) + key
        if key is not None:
            return head(partition, len(key)) + key + value
        return (without_key if partition == ANY_PARTITION else head(partition, _NO_KEY)) + value

    return pack


def _checked_tuple(encoded: Any) -> tuple[Any, Any, int]:
    """Return value, key and partition of a result of a less usual shape."""
    if not isinstance(encoded, tuple):
        return encoded, None, ANY_PARTITION
    value, key, partition = (*encoded, None)[:3] if 2 <= len(encoded) <= 3 else (encoded, None, None)
    if partition is None:
        return value, key, ANY_PARTITION
    if isinstance(partition, int) and not isinstance(partition, bool) and 0 <= partition < _MOST_PARTITIONS:
        return value, key, partition
    raise EncoderResultError(f"expected a whole number, 0 or more, for the partition, got {partition!r:.80}")


def _checked(part: Any, encoded: Any, *, is_optional: bool = False) -> bytes | None:
    """Return a value or a key of a less usual type as bytes."""
    if isinstance(part, bytes | bytearray | memoryview):
        return bytes(part)
    if isinstance(part, str):
        return part.encode()
    if part is None and is_optional:
        return None
    if isinstance(encoded, tuple) and part is not encoded:
        raise EncoderResultError(
            f"expected bytes (or text, sent as UTF-8) for value and key, got a {type(part).__name__}: {encoded!r:.80}"
        )
    raise EncoderResultError(
        f"expected a value, (value, key) or (value, key, partition), got a {type(encoded).__name__}: {encoded!r:.80}"
    )


def unpack(message: bytes) -> Record:
    """Return what was packed as one message."""
    [record] = _split(message, [len(message)])
    return Record(*record)


def records(block: OutputBlock) -> Iterator[tuple[bytes | None, bytes | None, int]]:
    """Yield the values, keys and partitions of a block's messages."""
    for body, lengths in zip(block.bodies, block.lengths, strict=True):
        yield from _split(bytes(body), lengths)


def _split(body: bytes, lengths: Iterable[int]) -> Iterator[tuple[bytes | None, bytes | None, int]]:
    # Plain tuples: there may be a million in a second.
    unpack_from, size = _HEAD.unpack_from, _HEAD.size
    end = 0
    for length in lengths:
        partition, key_length = unpack_from(body, end)
        begin, end = end + size, end + length
        if key_length >= 0:
            yield body[begin + key_length : end], body[begin : begin + key_length], partition
        elif key_length == _NO_KEY:
            yield body[begin:end], None, partition
        else:
            yield None, body[begin:end], partition


class EncodedOutput(bytes):
    """The value of an output as a test sees it: bytes, with the key and the partition that it is sent with.

    >>> encoded = EncodedOutput.of(Record(b"why => 1", b"why", ANY_PARTITION))
    >>> encoded == b"why => 1", encoded.key, encoded.for_partition
    (True, b'why', None)
    """

    key: bytes | None
    for_partition: int | None

    @classmethod
    def of(cls, record: Record) -> EncodedOutput:
        """Return what is sent; no value is shown as an empty one."""
        made = cls(record.value or b"")
        made.key = record.key
        made.for_partition = None if record.partition == ANY_PARTITION else record.partition
        return made
