"""Lanes: the parts of a source that have an order of their own, such as the partitions of a topic.

A position is one within a lane. Most sources have a single lane, number 0, and need not know about lanes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

MAX_LANES = 1 << 16
"""The lanes of a source are numbered from zero, below this."""

Source = TypeVar("Source", int, str)


class Lane(NamedTuple, Generic[Source]):
    """A lane of a source, which is given by its name, or by its number in the sequence.

    >>> Lane("words")
    Lane(source='words', number=0)
    """

    source: Source
    number: int = 0


def dump_ends(ends: Mapping[Lane[Source], int]) -> list[tuple[Source, int, int]]:
    """Return the ends of lanes in the form in which they are written as JSON, wherever they are.

    >>> ends = {Lane("words"): 7, Lane("orders", 2): 5}
    >>> dump_ends(ends)
    [('words', 0, 7), ('orders', 2, 5)]
    >>> load_ends(dump_ends(ends)) == ends
    True
    """
    return [(source, number, end) for (source, number), end in ends.items()]


def load_ends(data: Iterable[Any]) -> dict[Lane[Any], int]:
    """Return the ends that `dump_ends` was called on; if a lane occurs repeatedly, its last end counts."""
    return {Lane(source, int(number)): int(end) for source, number, end in data}


def ends_by_source(ends: Mapping[Lane[Source], int]) -> dict[Source, dict[int, int]]:
    """Return for each source the ends by the numbers of its lanes.

    >>> ends_by_source({Lane("words"): 7, Lane("orders", 2): 5, Lane("orders"): 1})
    {'words': {0: 7}, 'orders': {2: 5, 0: 1}}
    """
    found: dict[Source, dict[int, int]] = {}
    for (source, number), end in ends.items():
        found.setdefault(source, {})[number] = end
    return found
