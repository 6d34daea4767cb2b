"""How messages are delimited in a stream of bytes: by a header with the length in front of each, or by a newline.

`wallaroo send` adds the headers, `wallaroo receive` removes them. A stream without headers ("none") is treated as
lines; it has no `Framing`. `wallaroo send` can also make sure that each line is terminated ("lines").
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from struct import Struct
from typing import Protocol

from wallaroo.errors import WallarooError
from wallaroo.sizes import plural

_HEADERS_MADE_AHEAD = 1024


@dataclass(frozen=True)
class Framing:
    r"""A fixed-size header that holds the length of the message after it.

    >>> FRAMINGS["u16be"].wrap([b"to", b"be"])
    [b'\x00\x02to', b'\x00\x02be']
    """

    name: str
    header: Struct
    _headers: list[bytes] = field(init=False, repr=False, compare=False, default_factory=list)

    def __post_init__(self) -> None:
        # Most messages are short: looking up a header is twice as fast as packing it.
        self._headers.extend(map(self.header.pack, range(min(self.longest + 1, _HEADERS_MADE_AHEAD))))

    @property
    def longest(self) -> int:
        """The length of the longest message that the header can announce."""
        return int(256**self.header.size - 1)

    def wrap(self, messages: Iterable[bytes]) -> list[bytes]:
        """Return each message with its header in front."""
        headers, known, pack = self._headers, len(self._headers), self.header.pack
        frames = []
        for message in messages:
            length = len(message)
            if length < known:
                frames.append(headers[length] + message)
            elif length <= self.longest:
                frames.append(pack(length) + message)
            else:
                raise MessageTooLongError(self, length, frames)
        return frames


class InputError(WallarooError):
    """The input cannot be sent as it is."""


class MessageTooLongError(InputError):
    """A message is too long for its header; `before` are the frames of the messages before it."""

    def __init__(self, framing: Framing, length: int, before: list[bytes]) -> None:
        super().__init__(
            f"a message of {plural(length, 'byte')} is longer than a {framing.name} header can express "
            f"({plural(framing.longest, 'byte')}): choose a larger one with --framing"
        )
        self.before = before


FRAMINGS = {
    name: Framing(name, Struct(code))
    for name, code in {
        "u8": ">B",
        "u16be": ">H",
        "u16le": "<H",
        "u32be": ">I",
        "u32le": "<I",
        "u64be": ">Q",
        "u64le": "<Q",
    }.items()
}
FRAMING_NAMES = (*FRAMINGS, "none")
LINES = "lines"
SEND_FRAMING_NAMES = (*FRAMINGS, LINES, "none")


class FrameSplitter:
    """Splits a stream, given in pieces of any size, into its frames.

    >>> splitter = FrameSplitter(FRAMINGS["u8"])
    >>> splitter.feed(bytes([2]) + b"to" + bytes([2]) + b"b"), splitter.feed(b"e")
    ([b'to'], [b'be'])
    """

    def __init__(self, framing: Framing, *, keep_headers: bool = False) -> None:
        self._header = framing.header
        self._skip = 0 if keep_headers else framing.header.size
        self._buffer = bytearray()
        self._wanted = framing.header.size

    def feed(self, data: bytes | memoryview) -> list[bytes]:
        """Add the next bytes of the stream and return the frames that are now complete."""
        buffer = self._buffer
        buffer += data
        if len(buffer) < self._wanted:
            return []
        size, skip, length_at = self._header.size, self._skip, self._header.unpack_from
        frames = []
        start, available = 0, len(buffer)
        # Copied to bytes, so that slices are the frames themselves, not bytearrays to be copied again.
        stream = bytes(buffer)
        while True:
            if available - start < size:
                self._wanted = size
                break
            end: int = start + size + length_at(stream, start)[0]
            if end > available:
                self._wanted = end - start
                break
            frames.append(stream[start + skip : end])
            start = end
        del buffer[:start]
        return frames

    def missing(self) -> int:
        """Return the minimum number of bytes missing from the current frame; 0 between two frames."""
        return self._wanted - len(self._buffer) if self._buffer else 0


_NEWLINE = 10

Data = bytes | memoryview


class Reading(Protocol):
    """Splits the stream of one connection into messages; `room` is how many more are wanted, None for any number."""

    def take(self, piece: memoryview, room: int | None) -> tuple[Data, int]:
        """Return what to pass on of a piece of the stream, and how many messages end in it."""

    def settle(self) -> None:
        """Complete the processing after what was taken has been counted and passed on."""

    def end(self) -> int:
        """Return how many messages (none or one) are completed by the end of the stream."""

    def missing(self) -> int:
        """Return the minimum number of bytes missing from the last message."""


class Lines:
    """A stream without headers: passed on unchanged, its lines only counted."""

    def __init__(self) -> None:
        self._inside_line = False

    def take(self, piece: memoryview, room: int | None) -> tuple[Data, int]:
        """Return the piece, up to the last line that is still wanted, and the number of its lines."""
        # Counting in the buffer itself runs at memory speed; splitting the lines would not.
        buffer = piece.obj
        assert isinstance(buffer, bytearray)
        count = buffer.count(b"\n", 0, len(piece))
        if room is not None and count >= room:
            end = 0
            for _ in range(room):
                end = buffer.index(b"\n", end) + 1
            piece, count = piece[:end], room
        self._inside_line = piece[-1] != _NEWLINE
        return piece, count

    def settle(self) -> None:
        """Do nothing: lines are not confirmed."""

    def end(self) -> int:
        """Count a last line without a newline."""
        return int(self._inside_line)

    def missing(self) -> int:
        """Return 0: a stream of lines can end anywhere."""
        return 0


class Frames:
    """A stream of frames: passed on without headers, one per line."""

    def __init__(self, framing: Framing) -> None:
        self._splitter = FrameSplitter(framing)

    def take(self, piece: memoryview, room: int | None) -> tuple[Data, int]:
        """Return the messages that are now complete, one per line, and their number."""
        messages = self._splitter.feed(piece)[:room]
        return b"".join([message + b"\n" for message in messages]), len(messages)

    def settle(self) -> None:
        """Do nothing: frames are not confirmed."""

    def end(self) -> int:
        """Return 0: an incomplete frame is not a message."""
        return 0

    def missing(self) -> int:
        """Return the minimum number of bytes missing from the current frame."""
        return self._splitter.missing()
