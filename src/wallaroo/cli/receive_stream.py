"""How `wallaroo receive` tells the messages of a stream apart."""

from __future__ import annotations

from typing import Protocol

from wallaroo.cli.framing import FrameSplitter, Framing

_NEWLINE = 10

Data = bytes | memoryview


class Reading(Protocol):
    """How the messages of one connection are told apart; `room` is how many more may come, None for any."""

    def take(self, piece: memoryview, room: int | None) -> tuple[Data, int]:
        """Return what to pass on of a piece of the stream, and how many messages end in it."""

    def settle(self) -> None:
        """Do what remains to be done when what was taken has been counted and passed on."""

    def end(self) -> int:
        """Return how many messages (none or one) end because the stream does."""

    def missing(self) -> int:
        """Return how many bytes the stream lacks at least, so that its last message is complete."""


class Lines:
    """A stream without headers: passed on as it is, its lines only counted."""

    def __init__(self) -> None:
        self._inside_line = False

    def take(self, piece: memoryview, room: int | None) -> tuple[Data, int]:
        """Return the piece, up to the last line that there is room for, and the number of its lines."""
        # Counting in the buffer itself runs at memory speed; taking the lines apart would not.
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
        """Do nothing: nobody waits for a word about lines."""

    def end(self) -> int:
        """Count a last line without an end."""
        return int(self._inside_line)

    def missing(self) -> int:
        """Miss nothing: a stream of lines can end anywhere."""
        return 0


class Frames:
    """A stream of frames: passed on without their headers, one on each line."""

    def __init__(self, framing: Framing) -> None:
        self._splitter = FrameSplitter(framing)

    def take(self, piece: memoryview, room: int | None) -> tuple[Data, int]:
        """Return the messages that are complete now, a line each, and their number."""
        messages = self._splitter.feed(piece)[:room]
        return b"".join([message + b"\n" for message in messages]), len(messages)

    def settle(self) -> None:
        """Do nothing: nobody waits for a word about frames."""

    def end(self) -> int:
        """Count nothing: a frame that is not complete is no message."""
        return 0

    def missing(self) -> int:
        """Return how many bytes the frame that has begun still lacks at least."""
        return self._splitter.missing()
