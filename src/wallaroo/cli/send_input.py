"""The input of `wallaroo send`: the lines or frames of a file.

A chain of generators reads pieces of the input, splits them into messages, limits and paces them. Only the current
piece is kept in memory.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from wallaroo.cli.framing import FrameSplitter, Framing, InputError, MessageTooLongError
from wallaroo.sizes import plural

STDIN = 0
_PIECE = 1 << 20
# If messages are due more often than this, those of one interval are sent in one write.
_PACE_SECONDS = 0.002

Batch = list[bytes]
"""Messages in wire format, to be written together."""


def pieces(file: BinaryIO) -> Iterator[bytes]:
    """Yield the content of an unbuffered file as it is read."""
    while piece := file.read(_PIECE):
        yield piece


def lines(stream: Iterable[bytes], *, end: bytes = b"", last_end: bytes = b"") -> Iterator[Batch]:
    r"""Yield the lines of a stream, with `end` in place of their newlines, and `last_end` if the last one has none.

    >>> list(lines([b"to be\nor n", b"ot to be"]))
    [[b'to be'], [b'or not to be']]
    """
    unfinished: list[bytes] = []
    for piece in stream:
        first, *rest = piece.split(b"\n")
        unfinished.append(first)
        if rest:
            # Joined only here, so that a line of any length is copied once.
            unfinished, batch = [rest.pop()], [b"".join(unfinished), *rest]
            yield [line + end for line in batch] if end else batch
    if last := b"".join(unfinished):
        yield [last + last_end]


def frames(
    stream: Iterable[bytes], framing: Framing | None, *, raw: bool = False, end_last: bool = False
) -> Iterator[Batch]:
    r"""Yield the messages of a stream in wire format.

    Each line becomes a message with a header in front. A `raw` stream already consists of such messages.
    Without a framing the stream is unchanged, and its lines, including newlines, are the messages; with `end_last`
    a newline is added to the last one if it has none.

    >>> from wallaroo.cli.framing import FRAMINGS
    >>> list(frames([b"to\nbe\n"], FRAMINGS["u8"]))
    [[b'\x02to', b'\x02be']]
    >>> list(frames([b"\x02to\x02", b"be"], FRAMINGS["u8"], raw=True))
    [[b'\x02to'], [b'\x02be']]
    >>> list(frames([b"to\nbe"], None)), list(frames([b"to\nbe"], None, end_last=True))
    ([[b'to\n'], [b'be']], [[b'to\n'], [b'be\n']])
    """
    if framing is None:
        yield from lines(stream, end=b"\n", last_end=b"\n" if end_last else b"")
    elif raw:
        yield from _whole_frames(stream, framing)
    else:
        for batch in lines(stream):
            try:
                yield framing.wrap(batch)
            except MessageTooLongError as error:
                yield error.before
                raise


def _whole_frames(stream: Iterable[bytes], framing: Framing) -> Iterator[Batch]:
    splitter = FrameSplitter(framing, keep_headers=True)
    for piece in stream:
        if batch := splitter.feed(piece):
            yield batch
    if missing := splitter.missing():
        raise InputError(
            f"the input ends in the middle of a {framing.name} frame: {plural(missing, 'byte')} or more are missing"
        )


def limited(batches: Iterable[Batch], limit: int | None) -> Iterator[Batch]:
    """Yield no more than `limit` messages; None means all of them.

    >>> list(limited([[b"a", b"b"], [b"c", b"d"], [b"e"]], 3))
    [[b'a', b'b'], [b'c']]
    """
    left = math.inf if limit is None else limit
    for batch in batches:
        if len(batch) >= left:
            yield batch[: int(left)]
            return
        left -= len(batch)
        yield batch


def paced(batches: Iterable[Batch], rate: float | None) -> Iterator[Batch]:
    """Yield each message when it is due, `rate` of them per second; None means without delay.

    The schedule does not wait for the receiver: after a pause caused by it, overdue messages follow without delay.
    """
    if rate is None:
        yield from batches
        return
    started = time.monotonic()
    sent = 0
    for batch in batches:
        position = 0
        while position < len(batch):
            # Message number n is due n / rate seconds after the start.
            due = int((time.monotonic() - started) * rate) + 1 - sent
            if due > 0:
                some = batch[position : position + due]
                position += len(some)
                sent += len(some)
                yield some
            wait = max(started + sent / rate - time.monotonic(), _PACE_SECONDS if rate * _PACE_SECONDS > 1 else 0)
            if position < len(batch) and wait > 0:
                time.sleep(wait)


@dataclass(frozen=True)
class Input:
    """A file, read `repeat` times from the start, or standard input if `path` is None."""

    path: Path | None
    repeat: int = 1

    def check(self) -> None:
        """Refuse a closed standard input: the next file opened would get its descriptor.

        Raises:
            InputError: It is closed.
        """
        if self.path is None and sys.stdin is None:
            raise InputError("standard input is closed: name a file with --file, or write `< file`")

    def streams(self) -> Iterator[Iterator[bytes]]:
        """Yield the pieces of each round.

        Raises:
            InputError: The input cannot be opened, or, while its pieces are taken, read to its end.
        """
        for _ in range(self.repeat):
            with self._open() as file:
                yield self._pieces(file)

    def _open(self) -> BinaryIO:
        try:
            # An unbuffered file returns what is available and does not wait for more.
            return open(STDIN if self.path is None else self.path, "rb", buffering=0, closefd=self.path is not None)
        except OSError as error:
            raise self._unreadable(error) from error

    def _pieces(self, file: BinaryIO) -> Iterator[bytes]:
        try:
            yield from pieces(file)
        except OSError as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: OSError) -> InputError:
        return InputError(f"{self.path or 'standard input'} cannot be read: {(error.strerror or str(error)).lower()}")

    def size(self) -> int | None:
        """Return the number of bytes in all rounds together, or None if not known in advance."""
        if self.path is None or not self.path.is_file():
            return None
        return self.path.stat().st_size * self.repeat
