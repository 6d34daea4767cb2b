"""Lanes: the parts of a source that have an order of their own, such as the partitions of a topic.

A position is one within a lane. Most sources have a single lane, number 0, and need not know about lanes. A file in the
folder of each source has the positions up to which the messages of its lanes are committed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
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


_NAME = "committed"
_DIGITS = 20
_STRIDE = 32
"""From the place of one lane to that of the next: no position crosses the boundary of a sector."""


def read_committed(directory: Path) -> dict[int, int]:
    """Return the committed positions in `directory` by lane, without those that are missing or cannot be parsed."""
    try:
        content = (directory / _NAME).read_bytes()
    except FileNotFoundError:
        return {}
    places = (content[at : at + _DIGITS + 1] for at in range(0, len(content), _STRIDE))
    return {
        lane: int(text) for lane, text in enumerate(places) if len(text) == _DIGITS + 1 and text[:_DIGITS].isdigit()
    }


def note_committed(directory: Path, ends: Mapping[int, int]) -> None:
    """Write positions by lane; each always has the same size, so a crash leaves the old one or the new one."""
    file = os.open(directory / _NAME, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        for lane, index in ends.items():
            os.pwrite(file, b"%0*d\n" % (_DIGITS, index), lane * _STRIDE)
    finally:
        os.close(file)
