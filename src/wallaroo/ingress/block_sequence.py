"""The sequence: the messages of all sources in one total order, divided into numbered blocks.

A block does not contain messages, it refers to them: ranges of the sources' logs, in the order in which they were
accepted, and the time at which the block was cut. Block numbers define the order of the whole application.

The files are segments, each named by the number of its first block. A segment starts with a line of JSON: the format
of its records, and up to which message each lane of each source was sequenced before it. Records follow, each with a
checksum. A record at the end that was torn by a crash was never handed out, and is truncated; its messages are still in
the logs, and are sequenced again.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import starmap, zip_longest
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple
from zlib import crc32

from wallaroo.files import write_atomically
from wallaroo.ingress.lanes import Lane, dump_ends, load_ends
from wallaroo.ingress.log.format import DIRECTORY_MODE, FILE_MODE, LogCorruptError, sync_directory
from wallaroo.ingress.log.writer import UnsyncedFiles

SEGMENT_BYTES = 1 << 20
_SUFFIX = ".sequence"
_NAMES = "sources.json"
_UNSEEN = "unseen"
_KEPT_IN = "damaged"
_HEAD = Struct("<QQIH")
_RANGE = Struct("<HQQH")
_CHECKSUM = Struct("<I")
_FORMAT = 2
_RANGES = {1: Struct("<HQQ"), _FORMAT: _RANGE}
"""The layout of a range by the format of its segment. The first format, which segments do not name, has no lanes."""


class Range(NamedTuple):
    """The messages `first` to `end` (without `end`) of a lane of a source, which is given by its number."""

    source: int
    first: int
    end: int
    lane: int = 0


class SequencedBlock(NamedTuple):
    """A block of the sequence; `size` is the number of payload bytes of its messages."""

    number: int
    time_ns: int
    size: int
    ranges: tuple[Range, ...] = ()

    @property
    def ends(self) -> dict[Lane[int], int]:
        """Return the end of its messages for each lane that it has messages of.

        >>> SequencedBlock(7, 1_000, 42, (Range(0, 3, 5), Range(1, 0, 9, lane=4), Range(0, 5, 6))).ends
        {Lane(source=0, number=0): 6, Lane(source=1, number=4): 9}
        """
        return {Lane(each.source, each.lane): each.end for each in self.ranges}

    def pack(self) -> bytes:
        """Return the block as bytes.

        >>> block = SequencedBlock(7, 1_000, 42, (Range(0, 3, 5), Range(1, 0, 9, lane=4)))
        >>> unpack_block(block.pack()) == block
        True
        """
        head = _HEAD.pack(self.number, self.time_ns, self.size, len(self.ranges))
        return head + b"".join(_RANGE.pack(*each) for each in self.ranges)


def unpack_block(data: bytes | memoryview) -> SequencedBlock:
    """Return the block in `data`."""
    return next(unpack_blocks(data))


def unpack_blocks(data: bytes | memoryview) -> Iterator[SequencedBlock]:
    """Yield the blocks that are in `data` back to back.

    >>> blocks = [SequencedBlock(7, 1_000, 42, (Range(0, 3, 5),)), SequencedBlock(9, 2_000, 0)]
    >>> list(unpack_blocks(b"".join(block.pack() for block in blocks))) == blocks
    True
    """
    view = memoryview(data)
    at = 0
    while at < len(view):
        block, at = _unpack(view, at, _RANGE)
        yield block


def _unpack(view: memoryview, at: int, layout: Struct) -> tuple[SequencedBlock, int]:
    """Return the block at an offset, whose ranges have this layout, and the offset behind it."""
    number, time_ns, size, count = _HEAD.unpack_from(view, at)
    ranges = at + _HEAD.size
    end = ranges + count * layout.size
    return SequencedBlock(number, time_ns, size, tuple(starmap(Range, layout.iter_unpack(view[ranges:end])))), end


class SequenceWriter:
    """Appends blocks to the sequence in `directory`, and reads them again for a restarted query.

    `sources` are the names of the application's sources; `known` is the lowest number for a new block: the
    application has seen all blocks before it, even if a power failure has removed some from the end of the files.
    """

    def __init__(self, directory: Path, sources: Sequence[str], known: int = 0) -> None:
        self.directory = Path(directory)
        self.directory.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        self.names = self._remember_names(sources)
        self.ends: dict[Lane[int], int] = {}
        """Up to which message each lane is sequenced."""
        self.dropped: list[str] = []
        self._segments = segment_firsts(self.directory)
        if self._segments:
            last = Segment(self._path(self._segments[-1]))
            self.end = self._recover(last)
            self._file = os.open(last.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            self._size = os.fstat(self._file).st_size
            if last.format != _FORMAT:
                self._begin_segment()
        else:
            self.end = known
            self._begin_segment()
        if known > self.end:
            self.dropped.append(
                f"The sequence in {self.directory} ended at block {self.end}, but blocks up to {known} were known: "
                f"those between are lost, as after a power failure. It continues with block {known}."
            )
            # Lost blocks are replaced by blocks without messages, so that block numbers have no gaps.
            while self.end < known:
                self.append(time.time_ns(), 0)
        self.unseen = min(first_unseen(self.directory), self.end)
        """The blocks from this one on were never handed out by an earlier process."""
        # From now on they may be, and if this process is killed it is unknown which.
        (self.directory / _UNSEEN).unlink(missing_ok=True)
        sync_directory(self.directory)
        self._synced = 0

    def _remember_names(self, sources: Sequence[str]) -> list[str]:
        """Return all names by their numbers, which a source keeps as long as the sequence exists."""
        names = known_names(self.directory, sources)
        if set(names) != set(known_names(self.directory, ())):
            write_atomically(self.directory / _NAMES, json.dumps(names))
        return names

    def _path(self, first: int) -> Path:
        return _segment(self.directory, first)

    def _recover(self, segment: Segment) -> int:
        """Truncate an incomplete tail of the last segment; return the number of the next block."""
        self.ends = segment.ends
        at, end = segment.start, self._segments[-1]
        for block, after in segment.records():
            if block.number != end:
                break
            end, at = end + 1, after
            self._note(block)
        if rest := segment.data[at:]:
            # A record torn by a crash is useless, but a damaged one may look the same.
            kept = _keep(self.directory, f"{end:020d}-{crc32(rest):08x}", rest)
            self.dropped.append(
                f"{segment.path}: {len(rest)} bytes at its end were not written completely, or are damaged. Their "
                f"messages get new blocks, and what was there is kept in {kept}."
            )
            os.truncate(segment.path, at)
        return end

    def _note(self, block: SequencedBlock) -> None:
        self.ends.update(block.ends)

    def append(self, time_ns: int, size: int, ranges: tuple[Range, ...] = ()) -> SequencedBlock:
        """Append a block, and return it; it survives a crash of any process."""
        if self._size >= SEGMENT_BYTES:
            self._begin_segment()
        block = SequencedBlock(self.end, time_ns, size, ranges)
        packed = block.pack()
        record = packed + _CHECKSUM.pack(crc32(packed))
        written = os.write(self._file, record)
        if written < len(record):
            os.ftruncate(self._file, self._size)
            raise OSError(28, os.strerror(28), str(self.directory))
        self._size += written
        self.end += 1
        self._note(block)
        return block

    def _begin_segment(self) -> None:
        if self._segments:
            # Only the last segment is synced after this.
            os.fsync(self._file)
        path = self._path(self.end)
        opening = _opening(self.ends)
        # Atomically: a segment without its first line could not be read.
        write_atomically(path, opening, FILE_MODE)
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        if self._segments:
            os.close(self._file)
        if not self._segments or self._segments[-1] != self.end:
            self._segments.append(self.end)
        self._file, self._size = file, len(opening)

    @property
    def start(self) -> int:
        """Return the number of the first retained block."""
        return self._segments[0]

    def read_from(self, number: int) -> Iterator[SequencedBlock]:
        """Yield the blocks from `number` on, including those that are appended meanwhile.

        Raises:
            LogCorruptError: A block is damaged or missing.
        """
        while number < self.end:
            # Each pass reads the files as they are at its start; more may have been appended since.
            before = number
            for block in blocks_from(self.directory, number):
                yield block
                number = block.number + 1
            if number == before:
                raise _missing(self.directory, number)

    def delete_before(self, number: int) -> None:
        """Delete the blocks before `number`, in whole segments."""
        while len(self._segments) > 1 and self._segments[1] <= number:
            self._path(self._segments.pop(0)).unlink(missing_ok=True)

    def sync(self) -> None:
        """Sync the sequence to disk."""
        if files := self.unsynced():
            files.sync()

    def unsynced(self) -> UnsyncedFiles | None:
        """Return what has to be synced to disk, for another thread to do; None if there is nothing new."""
        end = self.end
        if self._synced == end:
            return None

        def done() -> None:
            self._synced = max(self._synced, end)

        return UnsyncedFiles(self.directory, [os.dup(self._file)], done)

    def close(self, unseen: int | None = None) -> None:
        """Sync the sequence to disk and close it; record the first block that was never handed out, if known."""
        self.sync()
        os.close(self._file)
        if unseen is not None:
            write_atomically(self.directory / _UNSEEN, str(unseen))


def known_names(directory: Path, sources: Sequence[str]) -> list[str]:
    """Return the names of all sources of a sequence, with these added, by their numbers."""
    path = directory / _NAMES
    names: list[str] = json.loads(path.read_text()) if path.exists() else []
    return [*names, *(name for name in sources if name not in names)]


def segment_firsts(directory: Path) -> list[int]:
    """Return the first block of each segment, ascending."""
    stems = (path.name.removesuffix(_SUFFIX) for path in directory.glob(f"*{_SUFFIX}"))
    return sorted(int(stem) for stem in stems if stem.isdigit())


def blocks_from(directory: Path, number: int) -> Iterator[SequencedBlock]:
    """Yield the blocks of a sequence from `number` on.

    Raises:
        LogCorruptError: A block is damaged or missing, and is not the last.
    """
    segments = segment_firsts(directory)
    for first, following in zip_longest(segments, segments[1:]):
        if following is not None and following <= number:
            continue
        for block, _ in Segment(_segment(directory, first)).records():
            if block.number == number:
                yield block
                number += 1
        if following is not None and number < following:
            raise _missing(directory, number)


def first_unseen(directory: Path) -> int:
    """Return the first block that was never handed out; a number beyond all blocks if that is not known."""
    try:
        return int((directory / _UNSEEN).read_text())
    except (FileNotFoundError, ValueError):
        return sys.maxsize


def truncate_at(directory: Path, number: int) -> None:
    """Truncate a sequence at a block that was never handed out; its messages, and those after it, get new blocks."""
    segments = segment_firsts(directory)
    while segments[-1] > number:
        _segment(directory, segments.pop()).unlink()
    sync_directory(directory)
    last = Segment(_segment(directory, segments[-1]))
    kept = (after for block, after in last.records() if block.number < number)
    os.truncate(last.path, max(kept, default=last.start))


def skip_damaged_blocks(directory: Path) -> list[str]:
    """Truncate a sequence where it is damaged, and return messages about it for the user.

    The messages of the blocks after it are still in the logs, and are sequenced again. What is truncated is kept.
    """
    reports = []
    segments = segment_firsts(directory)
    for first, following in zip_longest(segments, segments[1:]):
        path = _segment(directory, first)
        try:
            blocks = list(Segment(path).records())
            # An incomplete tail of the last segment is truncated when the sequence is opened.
            if following in {first + len(blocks), None}:
                continue
        except LogCorruptError:
            blocks = []
        kept = _keep(directory, path.name, path.read_bytes())
        for later in segments[segments.index(first) + 1 :]:
            _segment(directory, later).rename(kept / _segment(directory, later).name)
        if blocks:
            os.truncate(path, blocks[-1][1])
        else:
            path.unlink()
        sync_directory(directory)
        reports.append(
            f"The sequence in {directory} is damaged at block {first + len(blocks)}: it continues after it "
            f"with new blocks of the same messages, and outputs may be repeated. What was there is kept in {kept}."
        )
        break
    return reports


def lacks_block(directory: Path, number: int, known: int) -> bool:
    """Return whether block `number` is lost: the sequence begins after it, or has none of the blocks up to `known`."""
    segments = segment_firsts(directory)
    return number < (segments[0] if segments else known)


def begin_again_at(directory: Path, number: int) -> None:
    """Begin a sequence whose first blocks are lost at block `number`; what is left of it is kept.

    The messages are still in the logs, and are sequenced again.
    """
    directory.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
    for first in segment_firsts(directory):
        path = _segment(directory, first)
        _keep(directory, path.name, path.read_bytes())
        path.unlink()
    write_atomically(_segment(directory, number), _opening({}), FILE_MODE)
    sync_directory(directory)


def _keep(directory: Path, name: str, data: bytes) -> Path:
    """Save what is about to be truncated, and return the folder."""
    kept = directory / _KEPT_IN
    kept.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
    write_atomically(kept / name, data)
    return kept


def _segment(directory: Path, first: int) -> Path:
    return directory / f"{first:020d}{_SUFFIX}"


def _missing(directory: Path, number: int) -> LogCorruptError:
    return LogCorruptError(
        f"Block {number} of the sequence in {directory} is damaged or missing. Restore the sequence from a copy, or "
        "continue with --skip-damaged: the messages get new blocks, and outputs may be repeated."
    )


def _opening(ends: Mapping[Lane[int], int]) -> bytes:
    """Return the first line of a segment: its format, and up to where each lane was sequenced before it."""
    return json.dumps({"format": _FORMAT, "ends": dump_ends(ends)}).encode() + b"\n"


class Segment:
    """A file of the sequence, as it is when this object is made.

    Raises:
        LogCorruptError: Its first line cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = path.read_bytes()
        line, newline, _ = self.data.partition(b"\n")
        self.start = len(line) + len(newline)
        """The offset of the first record."""
        try:
            opening = json.loads(line)
            self.format: int = opening.get("format", 1)
            self.ends = _ends_of_first_format(opening) if self.format == 1 else load_ends(opening["ends"])
            """Up to where each lane was sequenced before this segment."""
            self._layout = _RANGES[self.format]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LogCorruptError(
                f"The file {path} is damaged: its first line cannot be read. Restore it from a copy, or "
                "continue with --skip-damaged: the messages get new blocks, and outputs may be repeated."
            ) from error

    def records(self) -> Iterator[tuple[SequencedBlock, int]]:
        """Yield the blocks, each with its end offset, up to the first torn or damaged one."""
        data, at = self.data, self.start
        view = memoryview(data)
        while at + _HEAD.size <= len(data):
            count = _HEAD.unpack_from(data, at)[3]
            end = at + _HEAD.size + count * self._layout.size
            if end + _CHECKSUM.size > len(data) or _CHECKSUM.unpack_from(data, end)[0] != crc32(view[at:end]):
                return
            yield _unpack(view, at, self._layout)[0], end + _CHECKSUM.size
            at = end + _CHECKSUM.size


def _ends_of_first_format(opening: Mapping[str, Any]) -> dict[Lane[int], int]:
    return {Lane(int(source)): int(end) for source, end in opening["ends"].items()}
