"""A stream of unpacked objects: many that arrived together, each made when it is taken.

An object that was just made is in the processor's cache, and if it is dropped before the next one is made, that one
gets the same memory. Making all of them first and then using them takes longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

_NOTHING: Iterator[Any] = iter(())


class Stream:
    """Objects that are taken one after the other.

    >>> rows = iter([1, 2, 3])
    >>> stream = Stream(None, map(str, rows), rows)
    >>> stream.next(2), stream.next(1)
    (['1', '2'], ['3'])
    >>> Stream([1, 2, 3]).next(2)
    [1, 2]
    """

    __slots__ = ("at", "counter", "made", "ready")

    def __init__(
        self, ready: list[Any] | None, made: Iterator[Any] = _NOTHING, counter: Iterator[Any] = _NOTHING
    ) -> None:
        self.ready = ready
        """The objects, if they exist already: taking slices of a list is faster still. None if they are in `made`."""
        self.at = 0
        """The index in `ready` of the next object."""
        self.made = made
        """Makes the next object."""
        self.counter = counter
        """An iterator that has as many items left as `made` and, unlike that, knows how many."""

    def next(self, count: int) -> list[Any]:
        """Return the next objects, fewer than `count` at the end."""
        if self.ready is None:
            return list(islice(self.made, count))
        self.at += count
        return self.ready[self.at - count : self.at]
