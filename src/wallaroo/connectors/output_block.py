"""The unit of delivery to a sink, and how much of it has been sent."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise

Body = bytes | memoryview
"""Encoded messages, back to back."""


def _forget(_size: int, _checksum: int) -> None:
    """Discard the progress."""


def _ignore(_error: BaseException | None) -> None:
    """Discard the end of the delivery."""


class OutputBlock:
    """The encoded messages of one block for one sink, as bodies of whole messages; `lengths` has their lengths.

    The sink reports the end of the delivery with `delivered` or `failed`. Until then progress is recorded at the
    boundaries between bodies, as a size and the checksum of that many bytes. After a crash the next run can resume from
    there, if what it computes starts with the same bytes.

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
        ended: Callable[[BaseException | None], None] = _ignore,
    ) -> None:
        self.number = number
        self.bodies = bodies
        self.lengths = lengths
        self.size = sum(map(len, bodies))
        self.done = 0
        """How many bytes need not be sent (again); always a boundary between bodies."""
        self._checksum = 0
        self._border = 0
        self._note = note
        self._ended = ended

    def messages(self) -> Iterator[Body]:
        """Yield the messages one by one, for sinks that do not send one stream of bytes.

        >>> block = OutputBlock(7, [b"onetwo", b"three"], lengths=[[3, 3], [5]])
        >>> [bytes(message) for message in block.messages()]
        [b'one', b'two', b'three']
        """
        for body, lengths in zip(self.bodies, self.lengths, strict=True):
            for begin, end in pairwise(accumulate(lengths, initial=0)):
                yield body[begin:end]

    def delivered(self) -> None:
        """Report that the receiver has the block; may be called in any thread."""
        self._ended(None)

    def failed(self, error: BaseException) -> None:
        """Report the error that has stopped the sink, after it has taken this block; may be called in any thread."""
        self._ended(error)

    @property
    def left(self) -> Sequence[Body]:
        """Return the bodies that are still to be sent."""
        return self.bodies[self._border :]

    def resume(self, size: int, checksum: int) -> None:
        """Resume where an earlier run stopped, unless this block does not start with what that run has sent."""
        self._advance(size)
        if (self.done, self._checksum) != (size, checksum):
            self._restart()

    def acknowledged(self, size: int) -> None:
        """Record that the receiver's machine has the first `size` bytes."""
        if size >= self.size:
            return  # Nothing is left to resume: that a block was sent completely is recorded elsewhere.
        before = self.done
        self._advance(size)
        if self.done > before:
            self._note(self.done, self._checksum)

    def resend(self) -> None:
        """Have the whole block sent again: a receiver may have died with bytes that it had not read."""
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
