"""The file format of a log, and lookups in it.

A log is a directory of segments. A segment is three files, named by the index of its first message:

- `.data`: the payloads, back to back;
- `.ends`: for each message the offset in `.data` where it ends, 4 bytes, little-endian;
- `.blocks`: a record for each append. It is written last and commits the append: whatever the other two files
  hold beyond the last valid record was never accepted.

Block records have a fixed size and are in ascending order, so a position is found by bisection in the file itself,
without an index in memory and without reading the log from its start.
"""

from __future__ import annotations

import os
import re
import struct
import sys
from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple, Self
from zlib import crc32

from wallaroo.errors import WallarooError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OFFSET_SIZE = 4
"""Bytes in `.ends` for each message."""

MAX_SEGMENT_DATA = (1 << 32) - 1
"""The greatest offset that `.ends` can hold."""

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600

_FIELDS = struct.Struct("<QIIQI")
_CHECKSUM = struct.Struct("<I")
RECORD_SIZE = _FIELDS.size + _CHECKSUM.size


LOST_FILE = "lost"
"""The file that lists which messages a log has lost at what was then its end: a line `from to` for each loss."""


def lost_ranges(directory: Path) -> list[tuple[int, int]]:
    """Return the ranges of messages that the log in `directory` is known to have lost."""
    try:
        noted = (directory / LOST_FILE).read_text(errors="replace")
    except FileNotFoundError:
        return []
    # A line torn by a crash is incomplete, and is written again.
    lines = re.findall(r"^(\d+) (\d+)\n", noted, re.MULTILINE)
    return [(int(low), int(high)) for low, high in lines]


def past_lost(directory: Path, index: int) -> int:
    """Return the first index at or after `index` that is not known to be lost."""
    for low, high in sorted(lost_ranges(directory)):
        if low <= index < high:
            index = high
    return index


def is_known_lost(directory: Path, first: int, end: int) -> bool:
    """Return whether the messages from `first` to `end` are known to be lost."""
    return past_lost(directory, first) >= end


def note_lost(directory: Path, first: int, end: int) -> None:
    """Record that the messages from `first` to `end` are lost; the record is durable when this returns."""
    file = os.open(directory / LOST_FILE, os.O_RDWR | os.O_CREAT | os.O_APPEND, FILE_MODE)
    try:
        # Appended to a torn line, the record would name messages that are not lost.
        os.ftruncate(file, os.pread(file, os.fstat(file).st_size, 0).rfind(b"\n") + 1)
        os.write(file, b"%d %d\n" % (first, end))
        os.fsync(file)
    finally:
        os.close(file)
    sync_directory(directory)


class LogCorruptError(WallarooError):
    """A requested part of a log is damaged or missing."""


REMEDY = "Restore the log from a copy, or continue without these messages: --skip-damaged keeps what is left of them."


def damaged_messages(data: Path, first: int, end: int) -> LogCorruptError:
    """Return the error for messages that do not match their checksum."""
    return LogCorruptError(
        f"The log file {data} (or {data.stem}.ends or {data.stem}.blocks beside it) is damaged: the messages from "
        f"{first} to {end} do not match their checksum. {REMEDY}"
    )


class Block(NamedTuple):
    """What one append added: `size` messages from index `first`, whose data ends at offset `data_end`."""

    first: int
    size: int
    data_end: int
    arrival_ns: int
    checksum: int

    @property
    def end(self) -> int:
        """Return the index after the block's last message."""
        return self.first + self.size


def pack_block(block: Block) -> bytes:
    """Return the record of a block, followed by a checksum of the record itself."""
    fields = _FIELDS.pack(*block)
    return fields + _CHECKSUM.pack(crc32(fields))


def unpack_block(record: bytes | memoryview) -> Block | None:
    """Return the block of a record, or None if the record is torn or damaged.

    >>> block = Block(first=7, size=2, data_end=100, arrival_ns=1, checksum=2)
    >>> unpack_block(pack_block(block)) == block
    True
    >>> unpack_block(pack_block(block)[:-1]) is None
    True
    """
    if len(record) != RECORD_SIZE:
        return None
    fields = record[: _FIELDS.size]
    if _CHECKSUM.unpack_from(record, _FIELDS.size)[0] != crc32(fields):
        return None
    block = Block._make(_FIELDS.unpack(fields))
    return block if block.size else None


def block_checksum(data: bytes | memoryview, ends: bytes | memoryview) -> int:
    """Return the checksum over a block's payloads and their end offsets."""
    return crc32(ends, crc32(data))


def pack_ends(offsets: array[int]) -> bytes:
    """Return end offsets in the file's byte order."""
    if sys.byteorder == "big":
        offsets.byteswap()
    return offsets.tobytes()


def unpack_ends(ends: bytes | memoryview) -> array[int]:
    """Return the end offsets in a part of an `.ends` file.

    >>> unpack_ends(pack_ends(array("I", [3, 5])))
    array('I', [3, 5])
    """
    offsets = array("I")
    offsets.frombytes(ends)
    if sys.byteorder == "big":
        offsets.byteswap()
    return offsets


class SegmentPaths(NamedTuple):
    """The three files of a segment, in the order in which they are created."""

    data: Path
    ends: Path
    blocks: Path

    def unlink(self) -> None:
        """Delete the segment. The blocks are deleted first: without them the other files are not a segment."""
        for path in reversed(self):
            path.unlink(missing_ok=True)


def segment_paths(directory: Path, start: int) -> SegmentPaths:
    """Return the files of the segment whose first message is `start`."""
    stem = f"{start:020d}"
    return SegmentPaths(*(directory / f"{stem}{suffix}" for suffix in (".data", ".ends", ".blocks")))


def segment_starts(directory: Path, suffix: str = ".blocks") -> list[int]:
    """Return the first index of each segment, ascending; an empty list if there is no such directory."""
    try:
        names = os.listdir(directory)  # noqa: PTH208 - a Path for each name would cost more than the listing.
    except FileNotFoundError:
        return []
    stems = (name[: -len(suffix)] for name in names if name.endswith(suffix))
    return sorted(int(stem) for stem in stems if len(stem) == 20 and stem.isdigit())


def sync_directory(directory: Path) -> None:
    """Make the entries of a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class BlockIndex:
    """The blocks of one segment, looked up in its file.

    A writer may append concurrently: the blocks are those that were committed when this object was created.
    """

    def __init__(self, directory: Path, start: int) -> None:
        self.paths = segment_paths(directory, start)
        self.start = start
        self._file = self.paths.blocks.open("rb", buffering=0)
        self._count = 0
        self.refresh()

    def refresh(self) -> None:
        """Include what the writer has appended since."""
        self._count = os.fstat(self._file.fileno()).st_size // RECORD_SIZE
        while self._count and self._at(self._count - 1) is None:
            self._count -= 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __len__(self) -> int:
        return self._count

    def _at(self, number: int) -> Block | None:
        return unpack_block(os.pread(self._file.fileno(), RECORD_SIZE, number * RECORD_SIZE))

    def block(self, number: int) -> Block:
        """Return a block by its number within the segment."""
        found = self._at(number)
        if found is None:
            raise self._damaged(number)
        return found

    def blocks(self, low: int, high: int) -> list[Block]:
        """Return the blocks `low` to `high`, without `high`."""
        records = memoryview(os.pread(self._file.fileno(), (high - low) * RECORD_SIZE, low * RECORD_SIZE))
        found = []
        for position in range(0, (high - low) * RECORD_SIZE, RECORD_SIZE):
            block = unpack_block(records[position : position + RECORD_SIZE])
            if block is None:
                raise self._damaged(low + position // RECORD_SIZE)
            found.append(block)
        return found

    def following(self, number: int, at_once: int, most: int) -> Iterator[Block]:
        """Yield up to `most` blocks from `number` on, including those that were appended since.

        Stops at the first one that is incomplete or damaged.
        """
        for low in range(number, number + most, at_once):
            records = memoryview(os.pread(self._file.fileno(), at_once * RECORD_SIZE, low * RECORD_SIZE))
            for position in range(0, at_once * RECORD_SIZE, RECORD_SIZE):
                block = unpack_block(records[position : position + RECORD_SIZE])
                if block is None:
                    return
                yield block

    @property
    def end(self) -> int:
        """Return the index after the segment's last message."""
        return self.block(self._count - 1).end if self._count else self.start

    def first(self, number: int) -> int:
        """Return the index at which block `number` starts, or would start if it were appended next."""
        return self.block(number - 1).end if number else self.start

    def data_start(self, number: int) -> int:
        """Return the offset in `.data` at which block `number` starts, or would start if it were appended next."""
        return self.block(number - 1).data_end if number else 0

    def find(self, index: int) -> int:
        """Return the number of the first block that starts at or after message `index`."""
        return bisect_left(range(self._count), index, key=lambda number: self.block(number).first)

    def weight(self, number: int) -> int:
        """Return the bytes on disk before block `number`: payloads and end offsets."""
        if not number:
            return 0
        before = self.block(number - 1)
        return before.data_end + OFFSET_SIZE * (before.end - self.start)

    def _damaged(self, number: int) -> LogCorruptError:
        before = self._at(number - 1) if number else None
        after = self._at(number + 1)
        low = before.end if before else self.start
        high = f"message {after.first - 1}" if after else "an unknown message"
        return LogCorruptError(
            f"The log file {self.paths.blocks} is damaged: the record of its block {number}, from message "
            f"{low} to {high}, does not match its checksum. {REMEDY}"
        )
