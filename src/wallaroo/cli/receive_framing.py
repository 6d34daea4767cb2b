"""How `wallaroo receive` splits a stream into messages."""

from __future__ import annotations

from typing import Protocol

from wallaroo.cli.framing import FrameSplitter, Framing

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
