"""Finds damage in a log by its checksums, and skips the damaged messages if the user requests it."""

from __future__ import annotations

import mmap
import os
from contextlib import ExitStack
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from wallaroo.ingress.log.format import (
    DIRECTORY_MODE,
    FILE_MODE,
    OFFSET_SIZE,
    RECORD_SIZE,
    Block,
    block_checksum,
    is_known_lost,
    note_lost,
    pack_block,
    segment_paths,
    segment_starts,
    unpack_block,
    unpack_ends,
)

if TYPE_CHECKING:
    from pathlib import Path


KEPT_IN = "damaged"
"""The folder inside the log's folder for what is left of damaged messages."""


def skip_damaged(directory: Path) -> list[str]:
    """Have readers of the log in `directory` skip what cannot be read, and return messages about it for the user."""
    reports = []
    starts = segment_starts(directory)
    for start, following in zip(starts, [*starts[1:], None], strict=True):
        segment = CheckedSegment(directory, start)
        # The last segment may have an incomplete tail: that is not damage, and recovery drops it.
        count = segment.whole_count if following is None else segment.known_count
        found = [damage for damage in segment.damage(count) if not is_known_lost(directory, damage.first, damage.end)]
        reports += [_skip(directory, segment, damage) for damage in found]
        end = segment.end(count)
        if following is not None and end < following and not is_known_lost(directory, end, following):
            note_lost(directory, end, following)
            reports.append(_report(directory, end, following, "nothing is left of them"))
    return reports


def quarantine(directory: Path, segment: CheckedSegment, damage: Damage) -> None:
    """Keep what is left of damaged messages, record that they are lost, and rewrite their block records."""
    _keep_bytes(directory / KEPT_IN, segment, damage)
    note_lost(directory, damage.first, damage.end)
    _renew_records(segment, damage)


def _skip(directory: Path, segment: CheckedSegment, damage: Damage) -> str:
    quarantine(directory, segment, damage)
    return _report(directory, damage.first, damage.end, f"what is left of them is kept in {directory / KEPT_IN}")


def _report(directory: Path, first: int, end: int, rest: str) -> str:
    number = end - first
    messages = f"message {first}" if number == 1 else f"{number} messages, {first} to {end - 1},"
    return f"The log {directory} continues without {messages} that cannot be read; {rest}."


def _keep_bytes(folder: Path, segment: CheckedSegment, damage: Damage) -> None:
    low = segment.data_end(damage.number)
    high = segment.data_start(damage.end_number) if damage.end_number < len(segment.records) else None
    parts = [
        (segment.paths.data, low, high),
        (segment.paths.ends, OFFSET_SIZE * (damage.first - segment.start), OFFSET_SIZE * (damage.end - segment.start)),
        (segment.paths.blocks, RECORD_SIZE * damage.number, RECORD_SIZE * damage.end_number),
    ]
    folder.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
    for path, begin, end in parts:
        if path.exists():
            target = folder / f"{damage.first}-{damage.end}{path.suffix}"
            file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
            with path.open("rb") as source, os.fdopen(file, "wb") as kept:
                source.seek(begin)
                kept.write(source.read(-1 if end is None else max(end - begin, 0)))
                kept.flush()
                os.fsync(kept.fileno())


def _renew_records(segment: CheckedSegment, damage: Damage) -> None:
    """Write records that span the damaged messages: their start is known, their division into blocks is not."""
    records = segment.records
    with segment.paths.blocks.open("r+b") as file:
        for number in range(damage.number, damage.end_number):
            if records[number] is None:
                following = next(later for later in range(number + 1, len(records)) if records[later] is not None)
                first = segment.end(number)
                # Each of the other blocks had at least one message; the first one is assumed to have had the rest.
                size = segment.block(following).first - first - (following - number - 1)
                data_end = max(segment.data_end(number), segment.data_start(following))
                records[number] = Block(first, size, data_end, 0, 0)
                file.seek(RECORD_SIZE * number)
                file.write(pack_block(segment.block(number)))
        file.flush()
        os.fsync(file.fileno())


class Damage(NamedTuple):
    """Blocks `number` to `end_number` that cannot be read, with messages `first` to `end`; both ends are exclusive."""

    number: int
    end_number: int
    first: int
    end: int


class CheckedSegment:
    """The contents of a segment's files, completely read and verified."""

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
        """Return how many blocks there are up to the last one that is intact."""
        return max((number for number, whole in enumerate(self.is_whole) if whole), default=-1) + 1

    @property
    def known_count(self) -> int:
        """Return how many blocks there are up to the last one whose record can be read."""
        return max((number for number, record in enumerate(self.records) if record), default=-1) + 1

    def damage(self, count: int) -> list[Damage]:
        """Return what is damaged in the first `count` blocks, the last of which must have a readable record."""
        found = []
        for whole, group in groupby(range(count), key=self.is_whole.__getitem__):
            numbers = list(group)
            if not whole:
                low, high = numbers[0], numbers[-1] + 1
                end = self.block(high).first if high < count else self.end(count)
                found.append(Damage(low, high, self.end(low), end))
        return found

    def block(self, number: int) -> Block:
        """Return a block whose record is readable."""
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
        """Return the offset at which the payloads of a block with a readable record start."""
        before = self.records[number - 1] if number else None
        return before.data_end if before is not None else self._end_of(self.block(number).first - 1)

    def _end_of(self, index: int) -> int:
        """Return where a message ends, according to `.ends`; 0 for the one before the first."""
        if index < self.start:
            return 0
        at = OFFSET_SIZE * (index - self.start)
        found = unpack_ends(self._ends[at : at + OFFSET_SIZE])
        return found[0] if found else 0

    def _matches(self, number: int, data: memoryview) -> bool:
        """Return whether a block's record, offsets and payloads match their checksums."""
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
