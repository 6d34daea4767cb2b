"""Rows between the stages: the shares of blocks for the partitions of the next stage, and how they are reordered there.

Rows are sent one at a time. A row with the number -1 is empty; it is needed because Spark requests the next row before
it passes the previous one to Python. On a cluster each row is followed by one; on a single machine our own shuffle
emits one when no other row is waiting. A number below -1 marks the end of an epoch, and before which block it ends.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import chain

import pyarrow as pa

from wallaroo.engine.transport.buckets import spread_ids
from wallaroo.engine.transport.shuffle_format import Chunk, pack_share, split_shares, unpack_share
from wallaroo.ingress.block_sequence import unpack_block

COLUMNS = "part int, block long, sender int, share binary"
_SCHEMA = pa.schema([("part", pa.int32()), ("block", pa.int64()), ("sender", pa.int32()), ("share", pa.binary())])
CONTENT, NOTHING = 0, -1
_TOGETHER_BYTES = 64 << 10
_TOGETHER_SECONDS = 0.005
"""Limits on the size and duration of blocks that share a row: the first of them waits for the last."""

Batches = Iterator[pa.RecordBatch]
Shares = list[list[Chunk]]
"""The shares of a block for each partition of the next stage."""


def end_before(block: int) -> int:
    """Return the row number that marks the end of the epoch before `block`.

    >>> end_before(0), end_before(end_before(7))
    (-2, 7)
    """
    return -2 - block


class BlockOrder:
    """Puts the rows from the previous stage into block order."""

    def __init__(self, start: int, senders: int) -> None:
        self._next = start
        self._needed = senders
        """How many senders send a share of each block."""
        self._waiting: dict[int, dict[int, memoryview]] = {}
        self._ends: set[int] = set()
        """The blocks before which epochs end. Each sender announces this before it sends later blocks."""
        self._last_end = start

    def take(
        self, block: pa.Scalar, sender: pa.Scalar, share: pa.Scalar
    ) -> Iterator[tuple[int, list[memoryview] | None]]:
        """Take a row; yield the blocks that are now complete and next in order, with None where an epoch ends."""
        number: int = block.as_py()
        if number < NOTHING and end_before(number) > self._last_end:
            self._ends.add(end_before(number))
        if number > NOTHING:
            for each in split_shares(memoryview(share.as_buffer())):
                block_number = unpack_block(next(unpack_share(each)).body).number
                self._waiting.setdefault(block_number, {})[sender.as_py()] = each
        while True:
            if self._next in self._ends:
                self._ends.discard(self._next)
                self._last_end = self._next
                yield self._next, None
            if len(self._waiting.get(self._next, ())) < self._needed:
                return
            shares = self._waiting.pop(self._next)
            yield self._next, [shares[each] for each in sorted(shares)]
            self._next += 1


class Shuffle:
    """Builds the rows for the partitions of the next stage.

    With `flushes`, each row is followed by an empty one. With `alone`, no block shares a row with another.
    """

    def __init__(self, partitions: int, sender: int, *, flushes: bool, alone: bool) -> None:
        self._partitions = partitions
        self._ids = pa.array(spread_ids(partitions, partitions), pa.int32())
        self._senders = pa.array([sender] * partitions, pa.int32())
        self._nothing = pa.array([b""] * partitions, pa.binary())
        self._flush = self._batch(NOTHING, self._nothing)
        self._behind = (self._flush,) if flushes else ()
        self._most_bytes = 0 if alone else _TOGETHER_BYTES

    def begin(self) -> Batches:
        """Yield an empty row for each partition, which the shuffle on a single machine emits repeatedly."""
        yield self._flush

    def _batch(self, number: int, shares: pa.Array) -> pa.RecordBatch:
        numbers = pa.array([number] * self._partitions, pa.int64())
        return pa.RecordBatch.from_arrays([self._ids, numbers, self._senders, shares], schema=_SCHEMA)

    def rows(self, blocks: Iterator[Shares]) -> Batches:
        """Yield the shares of blocks, one row for each partition even if its share is empty.

        Small blocks computed at about the same time share a row, because each row has a cost.
        """
        together: list[Shares] = []
        size, began = 0, time.monotonic()
        for shares in blocks:
            together.append(shares)
            size += sum(len(chunk.body) for share in shares for chunk in share)
            if size >= self._most_bytes or time.monotonic() - began > _TOGETHER_SECONDS:
                yield from self._row(together)
                together.clear()
                size, began = 0, time.monotonic()
        if together:
            yield from self._row(together)

    def _row(self, blocks: list[Shares]) -> Batches:
        joined = (pack_share(chain.from_iterable(of_one)) for of_one in zip(*blocks, strict=True))
        yield self._batch(CONTENT, pa.array(joined, pa.binary()))
        yield from self._behind

    def to_all(self, number: int) -> Batches:
        """Yield a row without content for each partition."""
        yield self._batch(number, self._nothing)
        yield from self._behind
