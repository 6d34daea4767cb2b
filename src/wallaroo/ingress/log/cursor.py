"""Reads a log range by range, as blocks of the sequence request them: mostly each range follows the last one.

A `LogReader` looks everything up again for each range. A cursor remembers the open files of the segment and its
position in it. The uncommon cases, such as a new segment or a lost message, are left to the `LogReader`.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from wallaroo.ingress.log.format import Block, BlockIndex, LogCorruptError, segment_starts
from wallaroo.ingress.log.reader import LogReader, pieces_of, read_piece

_RECORDS_AT_ONCE = 64
_LOOKED_AT = 4096
"""How many records are scanned from the cursor's position before the range is looked up."""


class _Place(NamedTuple):
    """A block of a segment: its number, and the offset of its data."""

    number: int
    data_start: int


class LogCursor:
    """The reading side of a log, for one sequential reader."""

    def __init__(self, directory: Path) -> None:
        self._log = LogReader(directory)
        self._files = ExitStack()
        weakref.finalize(self, self._files.close)  # A worker is not told when it is no longer needed.
        self._blocks: BlockIndex | None = None
        self._data = self._ends = -1
        self._at = _Place(0, 0)

    def read(self, first: int, end: int, lane: int = 0) -> Iterator[tuple[int, list[bytes]]]:  # noqa: ARG002 - a log has one
        """Yield messages `first` to `end` in the same pieces as `LogReader.read`, without those that are lost.

        Raises:
            LogCorruptError: Some of the messages are damaged or missing.
        """
        found = self._pieces(first, end)
        if found is not None:
            yield from found
            return
        for low, high in self._log.present(first, end):
            yield from self._log.read(low, high)
        self._open_near(end)

    def close(self) -> None:
        """Close the files; the next read reopens them."""
        self._files.close()
        self._blocks = None

    def _pieces(self, first: int, end: int) -> list[tuple[int, list[bytes]]] | None:
        """Return the messages if they are where they are expected, None if they have to be looked up."""
        blocks = self._blocks
        if blocks is None:
            return None
        try:
            found = self._between(blocks, first, end)
            if found is None:
                return None
            place, records = found
            pieces = [
                (piece[0].first, read_piece(blocks, self._data, self._ends, start, piece).messages())
                for start, piece in pieces_of(place.data_start, records)
            ]
        except LogCorruptError:
            return None
        self._at = _Place(place.number + len(records), records[-1].data_end)
        return pieces

    def _between(self, blocks: BlockIndex, first: int, end: int) -> tuple[_Place, list[Block]] | None:
        """Return the records of the messages `first` to `end`, and where they start."""
        number, data_start = self._at
        begin: _Place | None = None
        records: list[Block] = []
        for block in blocks.following(number, _RECORDS_AT_ONCE, _LOOKED_AT):
            if begin is None and block.first == first:
                begin = _Place(number, data_start)
            if begin is not None:
                if block.first != (records[-1].end if records else first):
                    return None
                records.append(block)
                if block.end >= end:
                    return (begin, records) if block.end == end else None
            elif block.first > first:
                return None
            number, data_start = number + 1, block.data_end
        return None

    def _open_near(self, index: int) -> None:
        """Open the segment that contains `index`, or will contain it."""
        starts = [start for start in segment_starts(self._log.directory) if start <= index]
        if not starts:
            return
        if self._blocks is None or self._blocks.start != starts[-1]:
            self.close()
            try:
                self._blocks = self._files.enter_context(BlockIndex(self._log.directory, starts[-1]))
                for name in ("data", "ends"):
                    file = self._files.enter_context(getattr(self._blocks.paths, name).open("rb", buffering=0))
                    setattr(self, f"_{name}", file.fileno())
            except FileNotFoundError:
                self.close()  # Deleted since it was listed, so it is no longer needed.
                return
        self._blocks.refresh()
        number = self._blocks.find(index)
        self._at = _Place(number, self._blocks.data_start(number))
