"""What a sink is handed at a time, and how far it has got."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise

Body = bytes | memoryview
"""Encoded messages, back to back."""


def _forget(_size: int, _checksum: int) -> None:
    """Take a note that nobody keeps."""


class OutputBlock:
    """The encoded messages of one block for one sink, as bodies of whole messages; `lengths` says how long each is.

    How far the block has got is noted at the borders between bodies, as a size and the checksum of so many bytes, so
    that a run that follows a crash can go on from there: if what it computes begins with the very same bytes.

    >>> notes = []
    >>> block = OutputBlock(7, [b"one ", b"two ", b"three "], note=lambda *progress: notes.append(progress))
    >>> block.acknowledged(10)
    >>> block.left, notes == [(8, zlib.crc32(b"one two "))]
    ([b'three '], True)
    >>> again = OutputBlock(7, [b"one two ", b"three "])
    >>> again.resume(*notes[0])
    >>> again.left
    [b'three ']
    """

    def __init__(
        self,
        number: int,
        bodies: Sequence[Body],
        note: Callable[[int, int], None] = _forget,
        lengths: Sequence[Sequence[int]] = (),
    ) -> None:
        self.number = number
        self.bodies = bodies
        self._lengths = lengths
        self.size = sum(map(len, bodies))
        self.done = 0
        """How many bytes need not be sent (again); always a border."""
        self._checksum = 0
        self._border = 0
        self._note = note

    def messages(self) -> Iterator[Body]:
        """Yield the messages one by one, for sinks that do not send bytes back to back.

        >>> block = OutputBlock(7, [b"onetwo", b"three"], lengths=[[3, 3], [5]])
        >>> [bytes(message) for message in block.messages()]
        [b'one', b'two', b'three']
        """
        for body, lengths in zip(self.bodies, self._lengths, strict=True):
            for begin, end in pairwise(accumulate(lengths, initial=0)):
                yield body[begin:end]

    @property
    def left(self) -> Sequence[Body]:
        """Return the bodies behind the border that has been reached."""
        return self.bodies[self._border :]

    def resume(self, size: int, checksum: int) -> None:
        """Go on where an earlier run had got to, unless this block does not begin with what that run had sent."""
        self._advance(size)
        if (self.done, self._checksum) != (size, checksum):
            self._restart()

    def acknowledged(self, size: int) -> None:
        """Take note that the receiver's machine has the first `size` bytes."""
        if size >= self.size:
            return  # There is nothing to go on with: that all of a block was sent is recorded elsewhere.
        before = self.done
        self._advance(size)
        if self.done > before:
            self._note(self.done, self._checksum)

    def resend(self) -> None:
        """Have the whole block sent, whatever has got through: a receiver may have died with what it had not read."""
        if self._border:
            self._restart()
            self._note(0, 0)

    def _advance(self, size: int) -> None:
        while self._border < len(self.bodies) and self.done + len(self.bodies[self._border]) <= size:
            body = self.bodies[self._border]
            self._checksum = zlib.crc32(body, self._checksum)
            self.done += len(body)
            self._border += 1

    def _restart(self) -> None:
        self.done = self._checksum = self._border = 0
