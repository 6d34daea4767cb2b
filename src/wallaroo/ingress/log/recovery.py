"""Recovers a log after the process that wrote it has ended, cleanly or not.

A segment is synced to disk before the next one starts, so only the last one can have an incomplete tail. That tail is
dropped. Damage anywhere else is reported, and skipped only if the user requests it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wallaroo.ingress.log.format import (
    DIRECTORY_MODE,
    FILE_MODE,
    OFFSET_SIZE,
    RECORD_SIZE,
    REMEDY,
    BlockIndex,
    LogCorruptError,
    damaged_messages,
    is_known_lost,
    past_lost,
    segment_paths,
    segment_starts,
)
from wallaroo.ingress.log.repair import CheckedSegment, quarantine

if TYPE_CHECKING:
    from pathlib import Path


@dataclass
class Segment:
    """What a writer knows about a segment: its messages are `start` to `end`, without `end`."""

    start: int
    end: int
    data_size: int = 0
    blocks_size: int = 0

    @property
    def ends_size(self) -> int:
        """Return the bytes in the `.ends` file."""
        return OFFSET_SIZE * (self.end - self.start)

    @property
    def disk_size(self) -> int:
        """Return the bytes in all three files."""
        return self.data_size + self.ends_size + self.blocks_size


@dataclass
class Recovered:
    """The segments of a log in order, the last one to be appended to, and messages about what was dropped."""

    segments: list[Segment]
    dropped: list[str] = field(default_factory=list)


def recover(directory: Path, committed: int, needed: int | None = None) -> Recovered:
    """Recover the log in `directory` and return its segments.

    `committed` is the index up to which messages have been processed: segments entirely below it are deleted, and no
    index below it is assigned again, even if the log lost its tail in a power failure. Nor is an index that is
    recorded as lost: a crash may have happened between that record and the creation of the segment after it. Segments
    with messages from `needed` on are kept, also if they have been processed.
    """
    unneeded = committed if needed is None else min(committed, needed)
    directory.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
    _remove_partial_segments(directory)
    starts = segment_starts(directory)
    while len(starts) > 1 and starts[1] <= unneeded:
        segment_paths(directory, starts.pop(0)).unlink()
    if not starts:
        return Recovered([create_segment(directory, past_lost(directory, committed))])
    found = Recovered([_complete_segment(directory, start) for start in starts[:-1]])
    found.segments.append(_repair(directory, starts[-1], committed, found.dropped))
    for segment, following in zip(found.segments, found.segments[1:], strict=False):
        if segment.end > following.start or not is_known_lost(directory, segment.end, following.start):
            raise LogCorruptError(
                f"The log {directory} is damaged: the segment that begins with message {segment.start} ends "
                f"before message {segment.end}, but the next one begins with {following.start}. {REMEDY}"
            )
    end = found.segments[-1].end
    following_index = past_lost(directory, max(end, committed))
    if following_index > end:
        found.segments.append(create_segment(directory, following_index))
        while found.segments[0].end <= unneeded and len(found.segments) > 1:
            segment_paths(directory, found.segments.pop(0).start).unlink()
    return found


def create_segment(directory: Path, start: int) -> Segment:
    """Create the empty files of a new segment, or truncate those of an earlier attempt."""
    for path in segment_paths(directory, start):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE))
    return Segment(start, start)


def _remove_partial_segments(directory: Path) -> None:
    """Remove segments without a `.blocks` file: partly created or partly deleted, they hold no messages."""
    complete = set(segment_starts(directory))
    for suffix in (".data", ".ends"):
        for start in segment_starts(directory, suffix):
            if start not in complete:
                segment_paths(directory, start).unlink()


def _complete_segment(directory: Path, start: int) -> Segment:
    with BlockIndex(directory, start) as blocks:
        return Segment(start, blocks.end, blocks.data_start(len(blocks)), len(blocks) * RECORD_SIZE)


def _repair(directory: Path, start: int, committed: int, dropped: list[str]) -> Segment:
    """Truncate the files of the last segment to its complete blocks."""
    paths = segment_paths(directory, start)
    for path in paths:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, FILE_MODE))
    checked = CheckedSegment(directory, start)
    count = checked.whole_count
    for damage in checked.damage(count):
        if damage.end <= committed:
            # These messages are no longer needed; readers only have to skip them.
            quarantine(directory, checked, damage)
        elif not is_known_lost(directory, damage.first, damage.end):
            raise damaged_messages(paths.data, damage.first, damage.end)
    segment = Segment(start, checked.end(count), checked.data_end(count), count * RECORD_SIZE)
    sizes = (segment.data_size, segment.ends_size, segment.blocks_size)
    surplus = [path.stat().st_size - size for path, size in zip(paths, sizes, strict=True)]
    for path, size in zip(paths, sizes, strict=True):
        os.truncate(path, size)
    if surplus[-1] >= RECORD_SIZE:
        dropped.append(
            f"The last {surplus[0]} bytes of the log {directory} were damaged, as after a power failure, "
            f"and have been dropped; the log continues with message {segment.end}."
        )
    return segment
