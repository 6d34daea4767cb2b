"""Reads a log, from any process, while another one appends to it."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from wallaroo.ingress.log.format import (
    OFFSET_SIZE,
    Block,
    BlockIndex,
    LogCorruptError,
    block_checksum,
    damaged_messages,
    lost_ranges,
    segment_starts,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


PIECE_BYTES = 1 << 19
"""How much `LogReader.read` reads from disk at a time, unless a block is larger."""

_RECORDS_AT_ONCE = 4096


class RawPiece(NamedTuple):
    """Adjacent messages in the log's own format: the index of the first, and the bytes of both files."""

    first: int
    data_start: int
    """The offset of `data` in its file."""
    ends: bytes
    data: bytes

    @property
    def end(self) -> int:
        """Return the index after the last message."""
        return self.first + len(self.ends) // OFFSET_SIZE

    def messages(self) -> list[bytes]:
        """Return the messages."""
        return cut_messages(self.data, self.ends, self.data_start)


class LogReader:
    """The reading side of a log.

    It holds only the directory's name, so it is cheap to create or to pickle.
    A log whose directory does not exist yet is empty.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = Path(directory)

    def end(self) -> int:
        """Return the index after the last committed message."""
        starts = segment_starts(self.directory)
        while starts:
            try:
                with BlockIndex(self.directory, starts[-1]) as blocks:
                    return blocks.end
            except FileNotFoundError:
                # The writer skipped ahead and deleted the segment after it was listed.
                starts = segment_starts(self.directory)
        return 0

    def bytes_between(self, start: int, end: int) -> int:
        """Return the payload bytes of the messages from `start` to `end`, without `end`."""
        with _Range(self.directory, start, end) as found:
            return sum(span.data_bytes() for span in found.spans)

    def limit(self, start: int, max_bytes: int, end: int | None = None) -> int:
        """Return how far one can read from `start` to get at most `max_bytes` of payloads and offsets.

        The result is the end of a block, and at least that of the first block if there is one. It does not exceed
        `end`, or, without `end`, what is committed. Lost messages count as zero bytes.
        """
        if end is None:
            end = self.end()
        left = max_bytes
        at_least = 1
        for low, high in self.present(start, end):
            with _Range(self.directory, low, high) as found:
                for span in found.spans:
                    number = span.last_within(left)
                    if number < span.high:
                        return span.blocks.first(max(number, span.low + at_least))
                    left -= span.weight()
                    at_least = 0
        return max(start, end)

    def present(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the ranges of `start` to `end` that exist: all of it, without messages lost in a power failure."""
        ranges = [(start, end)]
        for low, high in lost_ranges(self.directory):
            pieces = [piece for a, b in ranges for piece in ((a, min(b, low)), (max(a, high), b))]
            ranges = [(a, b) for a, b in pieces if a < b]
        return ranges

    def cut(self, start: int, end: int, parts: int) -> list[tuple[int, int]]:
        """Split the messages from `start` to `end` into at most `parts` ranges of about the same size."""
        if start >= end:
            return []
        with _Range(self.directory, start, end) as found:
            weight = sum(span.weight() for span in found.spans)
            borders = {found.border_at(weight * part // parts) for part in range(1, parts)}
        return list(pairwise(sorted(borders | {start, end})))

    def read(self, start: int, end: int) -> Iterator[tuple[int, list[bytes]]]:
        """Yield messages `start` to `end` in pieces of about half a MiB: an index and the payloads from it on.

        Raises:
            LogCorruptError: Some of the messages are damaged or missing; those before them have been yielded.
        """
        for piece in self.read_raw(start, end):
            yield piece.first, piece.messages()

    def read_raw(self, start: int, end: int) -> Iterator[RawPiece]:
        """Yield the same pieces as `read`, verified but not split into messages, to be passed on."""
        with _Range(self.directory, start, end) as found:
            for span in found.spans:
                yield from _read_span(span)


class _Span(NamedTuple):
    """The blocks `low` to `high` (without `high`) of a segment; never empty."""

    blocks: BlockIndex
    low: int
    high: int

    def data_bytes(self) -> int:
        return self.blocks.data_start(self.high) - self.blocks.data_start(self.low)

    def weight(self) -> int:
        return self.blocks.weight(self.high) - self.blocks.weight(self.low)

    def last_within(self, max_bytes: int) -> int:
        """Return the last block number with at most `max_bytes` in the blocks before it."""
        target = self.blocks.weight(self.low) + max_bytes
        return self.low + _bisect(bisect_right, self, target, self.blocks.weight) - 1

    def first_at(self, weight: int) -> int:
        """Return the block number before which the span's weight is closest to `weight`."""
        target = self.blocks.weight(self.low) + weight
        number = min(self.low + _bisect(bisect_left, self, target, self.blocks.weight), self.high)
        if number > self.low:
            over = self.blocks.weight(number) - target
            under = target - self.blocks.weight(number - 1)
            return number - 1 if under < over else number
        return number


def _bisect(method: Callable[..., int], span: _Span, target: int, key: Callable[[int], int]) -> int:
    return method(range(span.low, span.high + 1), target, key=key)


class _Range:
    """The blocks between two positions, across any number of segments."""

    def __init__(self, directory: Path, start: int, end: int) -> None:
        self.spans: list[_Span] = []
        self._directory = directory
        self._open_files = ExitStack()
        try:
            if start < end:
                self._find_spans(start, end)
        except BaseException:
            self._open_files.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open_files.close()

    def _find_spans(self, start: int, end: int) -> None:
        starts = segment_starts(self._directory)
        position = start
        for segment in starts[max(bisect_right(starts, start) - 1, 0) : bisect_left(starts, end)]:
            try:
                blocks = self._open_files.enter_context(BlockIndex(self._directory, segment))
            except FileNotFoundError:
                continue  # Deleted since it was listed: if it was needed, the gap is detected below.
            low = blocks.find(position)
            if blocks.first(low) != position:
                break
            high = blocks.find(end)
            if high > low:
                self.spans.append(_Span(blocks, low, high))
                position = blocks.first(high)
        if position != end:
            raise self._missing(start, end, position)

    def border_at(self, weight: int) -> int:
        """Return the block boundary that is closest to `weight` bytes after the start."""
        for span in self.spans:
            if weight <= span.weight():
                return span.blocks.first(span.first_at(weight))
            weight -= span.weight()
        return self.spans[-1].blocks.first(self.spans[-1].high)

    def _missing(self, start: int, end: int, position: int) -> LogCorruptError:
        starts = segment_starts(self._directory)
        if position > end:
            position = end
            cause = "is not where a block of messages ends"
        elif not starts:
            cause = "is missing: there is no log in that directory"
        elif position < starts[0]:
            cause = f"is gone: the log begins with {starts[0]}, what was before it had been processed"
        elif position >= (log_end := LogReader(self._directory).end()):
            cause = f"is missing: the log ends before message {log_end}"
        else:
            cause = "is not where a block of messages begins"
        return LogCorruptError(
            f"The messages from {start} to {end} cannot be read from the log {self._directory}: message "
            f"{position} {cause}."
        )


def _read_span(span: _Span) -> Iterator[RawPiece]:
    paths = span.blocks.paths
    records = (
        block
        for low in range(span.low, span.high, _RECORDS_AT_ONCE)
        for block in span.blocks.blocks(low, min(low + _RECORDS_AT_ONCE, span.high))
    )
    try:
        with paths.data.open("rb", buffering=0) as data, paths.ends.open("rb", buffering=0) as ends:
            for data_start, piece in pieces_of(span.blocks.data_start(span.low), records):
                yield read_piece(span.blocks, data.fileno(), ends.fileno(), data_start, piece)
    except FileNotFoundError as error:
        raise LogCorruptError(
            f"The messages from {span.blocks.first(span.low)} to {span.blocks.first(span.high)} cannot be "
            f"read: the log file {error.filename} is gone."
        ) from error


def pieces_of(data_start: int, records: Iterable[Block]) -> Iterator[tuple[int, list[Block]]]:
    """Yield adjacent blocks that are read together, with the offset of their data."""
    piece: list[Block] = []
    piece_start = data_start
    messages = 0
    for block in records:
        size = block.data_end - piece_start + OFFSET_SIZE * (messages + block.size)
        if piece and size > PIECE_BYTES:
            yield piece_start, piece
            piece, piece_start, messages = [], data_start, 0
        piece.append(block)
        messages += block.size
        data_start = block.data_end
    yield piece_start, piece


def read_piece(blocks: BlockIndex, data_file: int, ends_file: int, data_start: int, piece: list[Block]) -> RawPiece:
    """Return the messages of some adjacent blocks of a segment, whose data starts at `data_start`.

    Raises:
        LogCorruptError: They do not match their checksums.
    """
    first = piece[0].first
    count = piece[-1].end - first
    data = os.pread(data_file, piece[-1].data_end - data_start, data_start)
    ends = os.pread(ends_file, OFFSET_SIZE * count, OFFSET_SIZE * (first - blocks.start))
    _check_piece(blocks, data_start, piece, memoryview(data), memoryview(ends))
    return RawPiece(first, data_start, ends, data)


def _check_piece(blocks: BlockIndex, data_start: int, piece: list[Block], data: memoryview, ends: memoryview) -> None:
    first = piece[0].first
    low = 0
    for block in piece:
        high = block.data_end - data_start
        block_ends = ends[OFFSET_SIZE * (block.first - first) : OFFSET_SIZE * (block.end - first)]
        if block_checksum(data[low:high], block_ends) != block.checksum:
            raise damaged_messages(blocks.paths.data, block.first, block.end)
        low = high


def cut_messages(data: bytes, ends: bytes, data_start: int) -> list[bytes]:
    """Return the messages in `data`, which starts at `data_start` of its file; `ends` is its part of `.ends`.

    >>> cut_messages(b"acorn", bytes([11, 0, 0, 0, 15, 0, 0, 0]), 10)
    [b'a', b'corn']
    """
    import numpy as np  # noqa: PLC0415 - only workers cut messages; the ingress process starts faster without it
    import pyarrow as pa  # noqa: PLC0415

    found = np.frombuffer(ends, "<u4")
    offsets = np.zeros(len(found) + 1, np.int64)
    np.subtract(found, data_start, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    messages: list[bytes] = pa.Array.from_buffers(pa.large_binary(), len(found), buffers).to_pylist()
    return messages
