"""Appends to a log. Only one process at a time may write to it."""

from __future__ import annotations

import fcntl
import os
import time
from array import array
from bisect import bisect_right
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Self

from wallaroo.errors import WallarooError
from wallaroo.ingress.lanes import note_committed, read_committed
from wallaroo.ingress.log.format import (
    DIRECTORY_MODE,
    FILE_MODE,
    MAX_SEGMENT_DATA,
    RECORD_SIZE,
    Block,
    BlockIndex,
    block_checksum,
    note_lost,
    pack_block,
    pack_ends,
    segment_paths,
    sync_directory,
)
from wallaroo.ingress.log.recovery import Segment, create_segment, recover

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SEGMENT_BYTES = 64 << 20
"""How large a segment grows before the next one is started."""

_LOCK_SECONDS = 5.0


class UnsyncedFiles:
    """Duplicated descriptors of a log's files, which stay valid if the writer closes its own."""

    def __init__(self, directory: Path, files: Sequence[int], done: Callable[[], None]) -> None:
        self._directory = directory
        self._files = files
        self._done = done

    def sync(self) -> None:
        """Sync them to disk, the block records last, and close them."""
        try:
            for file in self._files:
                os.fsync(file)
            sync_directory(self._directory)
            self._done()
        finally:
            for file in self._files:
                os.close(file)


class LogWriter:
    """The writing side of a log; opens or creates the log in `directory`.

    Appended messages survive a crash of the process at any moment. Full segments, a closed log, and what is synced
    through `unsynced` also survive a power failure; the rest may be lost in one.

    A method that cannot write raises OSError and leaves the log unchanged: it can be called again.
    `committed` is the index up to which messages are known to be processed, `data_bytes` is the size of the
    payloads on disk and `disk_bytes` that of all files of the log's segments. `dropped` has messages about what was
    damaged when the log was opened.
    """

    def __init__(
        self,
        directory: Path,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        before_segment: Callable[[int], None] = lambda _end: None,
        needed: int | None = None,
    ) -> None:
        """Open a log; `before_segment` is called before each new segment, with the end of what is synced to disk.

        Messages from `needed` on are kept when it is opened, also if they have been processed.
        """
        self.directory = Path(directory)
        self._before_segment = before_segment
        self._segment_bytes = segment_bytes
        self.directory.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        self._lock = _lock(self.directory / "lock")
        self._files: tuple[int, ...] = ()
        try:
            self.committed = read_committed(self.directory).get(0, 0)
            recovered = recover(self.directory, self.committed, needed)
            self._segments = recovered.segments
            self._files = self._open_files(self._segments[-1])
        except BaseException:
            self._close_files()
            raise
        self.dropped = recovered.dropped
        self.committed = max(self.committed, self.start)
        self.data_bytes = sum(segment.data_size for segment in self._segments)
        self.disk_bytes = sum(segment.disk_size for segment in self._segments)
        self._clean = True
        # A process that was killed may not have synced the last segment.
        self._synced = self._segments[-1].start
        # A position and the bytes before it: the same position is requested repeatedly.
        self._mark = (-1, 0)

    @property
    def start(self) -> int:
        """Return the index of the first retained message."""
        return self._segments[0].start

    @property
    def end(self) -> int:
        """Return the index that the next message will get."""
        return self._segments[-1].end

    def append(self, payloads: Sequence[bytes | memoryview]) -> int:
        """Append messages as one block and return the index after the last of them."""
        if not payloads:
            return self.end
        data = b"".join(payloads)
        self._make_room(len(data))
        segment = self._segments[-1]
        offsets = array("I", accumulate(map(len, payloads), initial=segment.data_size))
        data_end = offsets[-1]
        ends = pack_ends(offsets[1:])
        checksum = block_checksum(data, ends)
        record = pack_block(Block(segment.end, len(payloads), data_end, time.time_ns(), checksum))
        data_file, ends_file, blocks_file = self._files
        self._drop_unfinished()
        self._clean = False
        try:
            _write(data_file, data, segment.data_size)
            _write(ends_file, ends, segment.ends_size)
            _write(blocks_file, record, segment.blocks_size)
        except OSError:
            with suppress(OSError):
                self._drop_unfinished()
            raise
        self._clean = True
        self.data_bytes += len(data)
        self.disk_bytes += len(data) + len(ends) + RECORD_SIZE
        segment.data_size = data_end
        segment.blocks_size += RECORD_SIZE
        segment.end += len(payloads)
        return segment.end

    def bytes_after(self, index: int) -> int:
        """Return the payload bytes of the messages from `index` on, in whole blocks."""
        if index != self._mark[0]:
            self._mark = (index, self._bytes_before(index))
        return self.data_bytes - self._mark[1]

    def delete_before(self, index: int) -> int:
        """Record that the messages before `index` are committed; return the number of segments deleted."""
        index = min(index, self.end)
        if index > self.committed:
            self.committed = index
            note_committed(self.directory, {0: index})
        deleted = 0
        while len(self._segments) > 1 and self._segments[1].start <= index:
            # The mark counts from the first segment, which is deleted here.
            self._mark = (-1, 0)
            segment_paths(self.directory, self._segments[0].start).unlink()
            segment = self._segments.pop(0)
            self.data_bytes -= segment.data_size
            self.disk_bytes -= segment.disk_size
            deleted += 1
        return deleted

    def delete_processed(self) -> None:
        """If all messages are processed, delete the active segment, too, and start a new one."""
        if self.committed >= self.end > self._segments[-1].start:
            self._roll(self.end)
            self.delete_before(self.committed)

    def advance_to(self, index: int) -> bool:
        """Continue with `index` if the log ends before it; return whether it did.

        A log that lost its tail in a power failure must not reuse indices that its readers have already seen with
        other messages: they would take the new messages for processed. The gap is recorded as lost, so that readers
        skip it.
        """
        if index <= self.end:
            return False
        note_lost(self.directory, self.end, index)
        self._roll(index)
        return True

    def sync(self) -> None:
        """Sync everything appended so far to disk."""
        for file in self._files:
            os.fsync(file)
        sync_directory(self.directory)
        self._synced = self.end

    def unsynced(self) -> UnsyncedFiles | None:
        """Return what has to be synced to disk, for another thread to do; None if there is nothing new."""
        end = self.end
        if self._synced == end or not self._files:
            return None

        def done() -> None:
            self._synced = max(self._synced, end)

        return UnsyncedFiles(self.directory, _all_or_none(map(os.dup, self._files)), done)

    def close(self) -> None:
        """Sync everything to disk and close the log. Calling it again does no harm."""
        if not self._files:
            return
        try:
            self.sync()
        finally:
            self._close_files()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _make_room(self, size: int) -> None:
        """Start a new segment if the current one is full, counting all of its files."""
        segment = self._segments[-1]
        if size > MAX_SEGMENT_DATA:
            raise ValueError(f"a block of {size} bytes is larger than a segment can be")
        too_far = segment.data_size + size > MAX_SEGMENT_DATA
        if segment.end > segment.start and (segment.disk_size >= self._segment_bytes or too_far):
            self._roll(segment.end)
            # The previous segment may be completely processed: it was retained only because it was active.
            with suppress(OSError):
                self.delete_before(self.committed)

    def _roll(self, start: int) -> None:
        self._drop_unfinished()
        self.sync()
        self._before_segment(self.end)
        segment = create_segment(self.directory, start)
        files = self._open_files(segment)
        for file in self._files:
            os.close(file)
        self._files = files
        self._segments.append(segment)

    def _drop_unfinished(self) -> None:
        """Truncate what an append that failed has written of its block."""
        if self._clean:
            return
        segment = self._segments[-1]
        data_file, ends_file, blocks_file = self._files
        os.ftruncate(blocks_file, segment.blocks_size)
        os.ftruncate(ends_file, segment.ends_size)
        os.ftruncate(data_file, segment.data_size)
        self._clean = True

    def _bytes_before(self, index: int) -> int:
        number = bisect_right(self._segments, index, key=lambda segment: segment.start) - 1
        if number < 0:
            return 0
        before = sum(segment.data_size for segment in self._segments[:number])
        with BlockIndex(self.directory, self._segments[number].start) as blocks:
            return before + blocks.data_start(blocks.find(index))

    def _open_files(self, segment: Segment) -> tuple[int, ...]:
        return _all_or_none(os.open(path, os.O_WRONLY) for path in segment_paths(self.directory, segment.start))

    def _close_files(self) -> None:
        for file in (*self._files, self._lock):
            if file >= 0:
                os.close(file)
        self._files = ()


def _all_or_none(files: Iterator[int]) -> tuple[int, ...]:
    """Return files that are opened one by one; if one cannot be opened, the others are closed."""
    opened: list[int] = []
    try:
        for file in files:
            opened.append(file)  # noqa: PERF402 - those opened before a failure have to be closed.
    except OSError:
        for file in opened:
            os.close(file)
        raise
    return tuple(opened)


def _write(file: int, content: bytes, offset: int) -> None:
    """Write all of `content`; a disk that is nearly full may accept only a part of it at first."""
    written = os.pwrite(file, content, offset)
    while written < len(content):
        written += os.pwrite(file, memoryview(content)[written:], offset + written)


def _lock(path: Path) -> int:
    """Lock the log for writing; wait for a process that is about to end."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE)
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() < deadline:
                time.sleep(0.1)
                continue
            os.close(file)
            raise WallarooError(
                f"Another process already writes to the log {path.parent}: the application seems to be "
                f"running. Stop it first, or start this one with a different name or resilience directory."
            ) from error
        return file
