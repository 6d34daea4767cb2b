"""Tables that fit the screen: words are never split, and the most important columns are never omitted.

The first columns of a table are always shown, with their texts on several lines if necessary. Each of the others is
shown if it fits beside them. On a screen too narrow even for the first columns, the last of these gets lines of its own
below the others.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

import click

_GAP = 2
_READABLE = 30
"""A line length at which a long text is readable; further columns may take the rest."""


def screen_width() -> int | None:
    """Return the width of the screen in characters, or None if the output is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def table_lines(rows: Sequence[Mapping[str, str]], first: Sequence[str], others: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a table for the screen, with the names of the columns in bold."""
    head, *lines = layout(rows, first, others, screen_width())
    yield click.style(head, bold=True)
    yield from lines


def layout(
    rows: Sequence[Mapping[str, str]], first: Sequence[str], others: Sequence[str], width: int | None
) -> Iterator[str]:
    r"""Yield the lines of a table, the first of which holds the names of the columns.

    Args:
        rows: For each row, its texts by column name.
        first: The columns that are always shown. The last one takes the remaining width.
        others: The columns that are shown if they fit.
        width: The number of characters on a line; None for no limit.

    >>> rows = [{"id": "1", "error": "it went wrong", "key": "words"}]
    >>> for width in (None, 14, 7):
    ...     print(*layout(rows, ["id", "error"], ["key"], width), sep="\n")
    id  error          key
    1   it went wrong  words
    id  error
    1   it went
        wrong
    id
    1
      it
      went
      wrong
    """
    rows = [{name: visible(" ".join(text.splitlines())) for name, text in row.items()} for row in rows]
    widths = _widths(rows, [*first, *others])
    if width is None or _total(widths) <= width:
        yield from _side_by_side(rows, widths)
        return
    longest = first[-1]
    needed = {name: _longest_word(rows, name) for name in first}
    if _total(needed) > width:
        yield from _below(rows, first[:-1], longest, width)
        return
    readable = max(min(widths[longest], _READABLE), needed[longest])
    # The long text is made readable first. Then the others get the width they need for one line, and it gets the rest.
    wanted = {longest: readable, **{name: widths[name] for name in first[:-1]}}
    for name, enough in wanted.items():
        needed[name] += max(0, min(enough - needed[name], width - _total(needed)))
    needed[longest] += width - _total(needed)
    for name in others:
        if needed[longest] - widths[name] - _GAP >= readable:
            needed[longest] -= widths[name] + _GAP
            needed[name] = widths[name]
    needed[longest] = min(needed[longest], widths[longest])
    yield from _side_by_side(rows, needed)


def wrapped(text: str, width: int) -> list[str]:
    """Return a text in lines of up to `width` characters; a longer word gets a line of its own, unsplit.

    >>> wrapped("a word, extraordinary", 8)
    ['a word,', 'extraordinary']
    """
    if _cells(text) <= width:
        return [text]
    lines = [""]
    for word in text.split():
        if lines[-1] and _cells(lines[-1]) + 1 + _cells(word) > width:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return lines


def visible(text: str) -> str:
    r"""Return a text with control characters escaped, except line breaks and tabs.

    >>> visible("red: \x1b[31m")
    'red: \\x1b[31m'
    """
    return "".join(
        each if each.isprintable() or each in "\n\t" else each.encode("unicode_escape").decode() for each in text
    )


def _side_by_side(rows: Iterable[Mapping[str, str]], widths: Mapping[str, int]) -> Iterator[str]:
    for row in ({name: name for name in widths}, *rows):
        cells = [wrapped(row[name], width) for name, width in widths.items()]
        for parts in zip_longest(*cells, fillvalue=""):
            padded = (part + " " * (width - _cells(part)) for part, width in zip(parts, widths.values(), strict=True))
            yield (" " * _GAP).join(padded).rstrip()


def _below(rows: Iterable[Mapping[str, str]], short: Sequence[str], long: str, width: int) -> Iterator[str]:
    """Yield the lines of rows whose long text is on lines of its own."""
    yield from wrapped("  ".join(short), width)
    for row in rows:
        yield from wrapped("  ".join(row[name] for name in short), width)
        yield from (" " * _GAP + line for line in wrapped(row[long], width - _GAP))


def _widths(rows: Iterable[Mapping[str, str]], names: Iterable[str]) -> dict[str, int]:
    return {name: max(_cells(name), *(_cells(row[name]) for row in rows)) for name in names}


def _longest_word(rows: Iterable[Mapping[str, str]], name: str) -> int:
    return max(_cells(word) for text in (name, *(row[name] for row in rows)) for word in text.split() or [""])


def _total(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + _GAP * (len(widths) - 1)


def _cells(text: str) -> int:
    """Return the width of a text on the screen, where some characters take two columns."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 - rarely needed

    return cell_len(text)
