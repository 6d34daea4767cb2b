"""What an application and the scripts beside it say to each other: a hello with a version, then frames.

docs/reference/wire-formats.md describes it. Nothing here trusts the other side: lengths are limited, and what makes no
sense is a `ProtocolError`, which says what came.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple
from zlib import crc32

from wallaroo.errors import WallarooError
from wallaroo.sizes import readable_size

VERSION = 1
MAGIC = b"WALX"
_HELLO = struct.Struct(">4sHI")
_MOST_HELLO = 64 << 10

_FRAME = struct.Struct(">IB")
FRAME_BYTES = 256 << 10
"""How many bytes of messages are put into one frame; a single message may be larger."""
BESIDE_MESSAGE = 1 << 20
"""How many bytes a frame may have beside the largest message."""
MOST_PARTITION = 1000
"""The length of the name of a partition, in bytes of UTF-8."""

MOST_NUMBER = (1 << 63) - 1
"""No message of a script has a greater number."""

MESSAGES = 1
"""From a source script: messages."""
DURABLE = 2
"""To a source script: up to which of its messages everything is durable."""
ASK = 3
"""From a source script: which sequence a partition has."""
STANDS = 4
"""To a source script: the answer."""
BYE = 5
"""From a source script: it does not come back, and has been told that everything is durable."""
PART = 6
"""To a sink script: messages of a block."""
CONFIRM = 7
"""From a sink script: how much of a block it has processed."""
REFUSED = 8
"""To a source script, before the connection is closed: why, as text."""


class ProtocolError(WallarooError):
    """The other side does not speak the protocol; `complete` has what came before that."""

    def __init__(self, reason: str, complete: Sequence[Hello | Frame] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.complete = list(complete)


class OtherVersionError(ProtocolError):
    """The other side speaks another version."""


class Hello(NamedTuple):
    """The first thing that each side sends: the version that it speaks, and what it says about itself."""

    version: int
    says: dict[str, Any]

    def pack(self) -> bytes:
        r"""Return the bytes.

        >>> Hello(1, {"role": "source"}).pack()
        b'WALX\x00\x01\x00\x00\x00\x11{"role":"source"}'
        """
        text = json.dumps(self.says, separators=(",", ":")).encode()
        return _HELLO.pack(MAGIC, self.version, len(text)) + text

    def check_version(self, who: str) -> None:
        """Raise an error if this is not our version; `who` has sent this hello.

        >>> Hello(7, {}).check_version("The script")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        wallaroo.connectors.extension.protocol.OtherVersionError: The script speaks version 7 of the protocol ...
        """
        if self.version != VERSION:
            raise OtherVersionError(
                f"{who} speaks version {self.version} of the protocol of extensions, and this side speaks version "
                f"{VERSION}: give both the same version of Wallaroo"
            )


class Frame(NamedTuple):
    """What follows the hello: its kind, and the rest."""

    kind: int
    body: bytes


def hello(role: str, **says: Any) -> bytes:
    """Return our own hello."""
    return Hello(VERSION, {"role": role, **says}).pack()


def frame(kind: int, *parts: bytes | memoryview) -> bytes:
    r"""Return the bytes of a frame.

    >>> frame(BYE)
    b'\x00\x00\x00\x01\x05'
    """
    return b"".join((_FRAME.pack(1 + sum(map(len, parts)), kind), *parts))


class Incoming:
    r"""Takes bytes as they come, and returns what they complete: a hello, then frames.

    >>> incoming = Incoming(most=1000)
    >>> sent = hello("source") + frame(BYE)
    >>> [incoming.feed(sent[:9]), incoming.feed(sent[9:-1]), incoming.feed(sent[-1:])]
    [[], [Hello(version=1, says={'role': 'source'})], [Frame(kind=5, body=b'')]]
    >>> Incoming(most=1000).feed(b"GET / HTTP/1.1")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    wallaroo.connectors.extension.protocol.ProtocolError: it sent b'GET / HTTP/1.1', which is not how an extension ...
    """

    def __init__(self, most: int) -> None:
        """Take frames of up to `most` bytes."""
        self._most = most
        self._unfinished = bytearray()
        self._needed = 0
        self._has_hello = False

    @property
    def pending(self) -> int:
        """Return the number of bytes of what is not complete."""
        return len(self._unfinished)

    @property
    def lacking(self) -> str:
        """Return, as text, what is lacking."""
        return f"{self.pending:,} of at least {self._needed:,} bytes of a frame have been received."

    def feed(self, data: bytes) -> list[Hello | Frame]:
        """Return what `data` completes.

        Raises:
            ProtocolError: It makes no sense.
        """
        if self._unfinished:
            self._unfinished += data
            if len(self._unfinished) < self._needed:
                return []
            data = bytes(self._unfinished)
        complete: list[Hello | Frame] = []
        position = 0
        try:
            while (end := self._end(data, position)) <= len(data):
                complete.append(self._cut(data, position, end))
                position = end
        except ProtocolError as error:
            raise ProtocolError(error.reason, complete) from None
        self._needed = end - position
        self._unfinished = bytearray(memoryview(data)[position:])
        return complete

    def _end(self, data: bytes, position: int) -> int:
        """Return where what begins at `position` ends, or, if that cannot be known yet, where its header ends."""
        if not self._has_hello:
            return self._end_of_hello(data)
        if len(data) < position + _FRAME.size:
            return position + _FRAME.size
        length, _ = _FRAME.unpack_from(data, position)
        if not 1 <= length <= self._most:
            raise ProtocolError(
                f"it announced a frame of {length:,} bytes, and at most {readable_size(self._most)} are accepted"
            )
        return position + _FRAME.size - 1 + int(length)

    def _end_of_hello(self, data: bytes) -> int:
        if not data.startswith(MAGIC[: len(data)]):
            raise ProtocolError(f"it sent {data[:16]!r}, which is not how an extension of Wallaroo begins")
        if len(data) < _HELLO.size:
            return _HELLO.size
        _, _, length = _HELLO.unpack_from(data)
        if length > _MOST_HELLO:
            raise ProtocolError(f"it announced a hello of {length:,} bytes")
        return _HELLO.size + int(length)

    def _cut(self, data: bytes, position: int, end: int) -> Hello | Frame:
        if self._has_hello:
            return Frame(data[position + _FRAME.size - 1], data[position + _FRAME.size : end])
        self._has_hello = True
        _, version, _ = _HELLO.unpack_from(data)
        try:
            says = json.loads(data[_HELLO.size : end])
        except (ValueError, RecursionError):
            says = None
        if not isinstance(says, dict):
            raise ProtocolError("its hello is not an object in JSON")
        return Hello(version, says)


class Messages(NamedTuple):
    """Messages of a source script, which are numbered one after the other.

    Messages with a sequence have the index of their partition in `names`, others have `NO_PARTITION`; if no message has
    one, `partitions` and `sequences` are empty.
    """

    first: int
    payloads: list[bytes]
    names: list[str]
    partitions: Sequence[int]
    sequences: Sequence[int]


NO_PARTITION = (1 << 32) - 1
_MESSAGES = struct.Struct(">QII")
_NAME = struct.Struct(">H")


def pack_messages(messages: Messages) -> bytes:
    """Return the frame of some messages.

    >>> sent = Messages(5, [b"to", b"be"], ["a file"], [0, NO_PARTITION], [-7, 0])
    >>> unpack_messages(pack_messages(sent)[5:]) == (5, [b"to", b"be"], ["a file"], (0, NO_PARTITION), (-7, 0))
    True
    """
    first, payloads, names, partitions, sequences = messages
    count = len(payloads)
    parts = [_MESSAGES.pack(first, count, len(names))]
    if names:
        encoded = [name.encode("utf-8", "surrogatepass") for name in names]
        parts += [piece for name in encoded for piece in (_NAME.pack(len(name)), name)]
        parts += [struct.pack(f">{count}I", *partitions), struct.pack(f">{count}q", *sequences)]
    return frame(MESSAGES, *parts, _ends(map(len, payloads)), *payloads)


def unpack_messages(body: bytes) -> Messages:
    """Return the messages of a frame.

    Raises:
        ProtocolError: It makes no sense.
    """
    try:
        first, count, number_of_names = _MESSAGES.unpack_from(body)
        if not 0 < first <= first + count - 1 < MOST_NUMBER:
            raise ProtocolError("a frame of messages has none, or numbers them as no script does")
        position = _MESSAGES.size
        names: list[str] = []
        partitions: Sequence[int] = ()
        sequences: Sequence[int] = ()
        if number_of_names:
            for _ in range(number_of_names):
                (length,) = _NAME.unpack_from(body, position)
                position += _NAME.size + length
                names.append(body[position - length : position].decode("utf-8", "surrogatepass"))
            partitions = struct.unpack_from(f">{count}I", body, position)
            sequences = struct.unpack_from(f">{count}q", body, position + 4 * count)
            position += 12 * count
            if any(index >= number_of_names and index != NO_PARTITION for index in partitions):
                raise ProtocolError("a message names a partition that its frame does not have")
        return Messages(first, _cut(body, position, count), names, partitions, sequences)
    except (struct.error, UnicodeDecodeError, ValueError) as error:
        raise ProtocolError("a frame of messages is not as long as it says") from error


class Part(NamedTuple):
    """Messages of a block for a sink script: those from `first` on, of `total` that the block has.

    `checksum` is that of the messages before `first`.
    """

    block: int
    total: int
    first: int
    checksum: int
    payloads: list[bytes]


_PART = struct.Struct(">QIIQI")


def pack_part(  # noqa: PLR0913, PLR0917 - in the order of the frame.
    block: int,
    total: int,
    first: int,
    checksum: int,
    lengths: Sequence[int],
    data: Sequence[bytes | memoryview],
) -> bytes:
    """Return the frame of some messages of a block: their lengths, and, in as many pieces as there are, their bytes.

    >>> unpack_part(pack_part(7, 3, 1, 12, [2, 2], [b"beor"])[5:])
    Part(block=7, total=3, first=1, checksum=12, payloads=[b'be', b'or'])
    """
    return frame(PART, _PART.pack(block, total, first, checksum, len(lengths)), _ends(lengths), *data)


def checksum_after(before: int, lengths: Sequence[int], data: Iterable[bytes | memoryview]) -> int:
    """Return the checksum of messages, which is `before` without the last ones, with these lengths and bytes.

    It is 0 for none. Half of it is that of the lengths, the other half that of the bytes.

    >>> one = checksum_after(0, [2], [b"to"])
    >>> checksum_after(one, [2, 2], [b"beor"]) == checksum_after(0, [2, 2, 2], [b"tobe", b"or"])
    True
    """
    of_lengths = crc32(struct.pack(f">{len(lengths)}I", *lengths), before >> 32)
    of_bytes = before & 0xFFFFFFFF
    for each in data:
        of_bytes = crc32(each, of_bytes)
    return of_lengths << 32 | of_bytes


def unpack_part(body: bytes) -> Part:
    """Return the messages of a frame.

    Raises:
        ProtocolError: It makes no sense.
    """
    try:
        block, total, first, checksum, count = _PART.unpack_from(body)
        return Part(block, total, first, checksum, _cut(body, _PART.size, count))
    except (struct.error, ValueError) as error:
        raise ProtocolError("a frame of messages is not as long as it says") from error


def _ends(lengths: Iterable[int]) -> bytes:
    """Return where messages of these lengths end."""
    ends = list(accumulate(lengths))
    return struct.pack(f">{len(ends)}I", *ends)


def _cut(body: bytes, position: int, count: int) -> list[bytes]:
    """Return `count` messages whose ends are at `position` of a frame, and they follow."""
    ends = struct.unpack_from(f">{count}I", body, position)
    begin = position + 4 * count
    if begin + (ends[-1] if count else 0) != len(body) or any(map(int.__gt__, ends, ends[1:])):
        raise ValueError
    data = body[begin:]
    return [data[low:high] for low, high in zip((0, *ends), ends, strict=False)]


_DURABLE = struct.Struct(">Q")


def pack_durable(number: int) -> bytes:
    """Return the frame that says up to which message everything is durable."""
    return frame(DURABLE, _DURABLE.pack(number))


_ASK = struct.Struct(">I")
_STANDS = struct.Struct(">I?q")


def pack_ask(question: int, partition: str) -> bytes:
    """Return the frame that asks for the sequence of a partition."""
    return frame(ASK, _ASK.pack(question), partition.encode("utf-8", "surrogatepass"))


def unpack_ask(body: bytes) -> tuple[int, str]:
    """Return the number of the question, and the partition."""
    (question,) = _unpacked(_ASK, body[: _ASK.size])
    try:
        return question, body[_ASK.size :].decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise ProtocolError("the name of a partition is not UTF-8") from error


def pack_stands(question: int, sequence: int | None) -> bytes:
    """Return the frame that answers a question.

    >>> unpack_stands(pack_stands(3, None)[5:]), unpack_stands(pack_stands(4, -1)[5:])
    ((3, None), (4, -1))
    """
    return frame(STANDS, _STANDS.pack(question, sequence is not None, sequence or 0))


def unpack_stands(body: bytes) -> tuple[int, int | None]:
    """Return the number of a question, and the sequence."""
    question, is_known, sequence = _unpacked(_STANDS, body)
    return question, sequence if is_known else None


class Place(NamedTuple):
    """A place in the outputs of an application: a block, how many of its messages, and their checksum."""

    block: int
    messages: int
    checksum: int

    @property
    def order(self) -> tuple[int, int]:
        """Return what places are compared by."""
        return self[:2]


BEGINNING = Place(-1, 0, 0)
_CONFIRM = struct.Struct(">QI")


def pack_confirm(block: int, count: int) -> bytes:
    """Return the frame that confirms the first `count` messages of a block, and all blocks before it."""
    return frame(CONFIRM, _CONFIRM.pack(block, count))


def unpack_confirm(body: bytes) -> tuple[int, int]:
    """Return the number of a block, and how many of its messages are confirmed."""
    block, count = _unpacked(_CONFIRM, body)
    return block, count


def unpack_durable(body: bytes) -> int:
    """Return up to which message everything is durable."""
    number: int = _unpacked(_DURABLE, body)[0]
    return number


def _unpacked(layout: struct.Struct, body: bytes) -> tuple[Any, ...]:
    try:
        return layout.unpack(body)
    except struct.error as error:
        raise ProtocolError("a frame is not as long as it has to be") from error
