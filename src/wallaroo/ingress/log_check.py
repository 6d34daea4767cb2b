"""Checks a segment of a log against its checksums: which blocks are whole, and which messages are lost with the others.

A damaged block says nothing about the ones behind it. Only where nothing whole follows is it the torn end of a log that
was being written; anywhere else it is a failing disk's work.
"""

from __future__ import annotations

import mmap
from contextlib import ExitStack
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from wallaroo.ingress.log_format import (
    OFFSET_SIZE,
    RECORD_SIZE,
    Block,
    block_checksum,
    segment_paths,
    unpack_block,
    unpack_ends,
)

if TYPE_CHECKING:
    from pathlib import Path


class Damage(NamedTuple):
    """Blocks number `number` to `end_number` that cannot be read: messages `first` to `end`, all without the last."""

    number: int
    end_number: int
    first: int
    end: int


class CheckedSegment:
    """What the files of a segment hold, all of it read and checked."""

    def __init__(self, directory: Path, start: int) -> None:
        self.start = start
        self.paths = segment_paths(directory, start)
        raw = self.paths.blocks.read_bytes()
        self.records = [unpack_block(raw[at : at + RECORD_SIZE]) for at in range(0, len(raw), RECORD_SIZE)]
        self._ends = memoryview(self.paths.ends.read_bytes() if self.paths.ends.exists() else b"")
        with ExitStack() as opened:
            data = memoryview(b"")
            if self.paths.data.exists() and self.paths.data.stat().st_size:
                file = opened.enter_context(self.paths.data.open("rb"))
                mapped = opened.enter_context(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
                data = opened.enter_context(memoryview(mapped))
            self.is_whole = [self._matches(number, data) for number in range(len(self.records))]

    @property
    def whole_count(self) -> int:
        """Return how many blocks there are up to the last one that is whole."""
        return max((number for number, whole in enumerate(self.is_whole) if whole), default=-1) + 1

    @property
    def known_count(self) -> int:
        """Return how many blocks there are up to the last one whose record can be read."""
        return max((number for number, record in enumerate(self.records) if record), default=-1) + 1

    def damage(self, count: int) -> list[Damage]:
        """Return what cannot be read of the first `count` blocks, the last of which has a record that can be read."""
        found = []
        for whole, group in groupby(range(count), key=self.is_whole.__getitem__):
            numbers = list(group)
            if not whole:
                low, high = numbers[0], numbers[-1] + 1
                end = self.block(high).first if high < count else self.end(count)
                found.append(Damage(low, high, self.end(low), end))
        return found

    def block(self, number: int) -> Block:
        """Return a block whose record can be read."""
        block = self.records[number]
        assert block is not None
        return block

    def end(self, count: int) -> int:
        """Return the index after the last message of the first `count` blocks."""
        return self.block(count - 1).end if count else self.start

    def data_end(self, count: int) -> int:
        """Return the offset at which the payloads of the first `count` blocks end."""
        return self.block(count - 1).data_end if count else 0

    def data_start(self, number: int) -> int:
        """Return the offset at which the payloads of a block begin whose record can be read."""
        before = self.records[number - 1] if number else None
        return before.data_end if before is not None else self._end_of(self.block(number).first - 1)

    def _end_of(self, index: int) -> int:
        """Return where a message ends, by the file of the offsets; 0 for the one before the first."""
        if index < self.start:
            return 0
        at = OFFSET_SIZE * (index - self.start)
        found = unpack_ends(self._ends[at : at + OFFSET_SIZE])
        return found[0] if found else 0

    def _matches(self, number: int, data: memoryview) -> bool:
        """Tell whether a block's record, offsets and payloads are what was written."""
        block = self.records[number]
        before = self.records[number - 1] if number else None
        if block is None or block.first < self.start or (before is not None and before.end != block.first):
            return False
        if number == 0 and block.first != self.start:
            return False
        at = OFFSET_SIZE * (block.first - self.start)
        ends = self._ends[at : at + OFFSET_SIZE * block.size]
        if len(ends) != OFFSET_SIZE * block.size or unpack_ends(ends[-OFFSET_SIZE:])[0] != block.data_end:
            return False
        start = self.data_start(number)
        if not start <= block.data_end <= len(data):
            return False
        with data[start : block.data_end] as payloads:
            return block_checksum(payloads, ends) == block.checksum
