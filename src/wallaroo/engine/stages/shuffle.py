"""Rows between the stages: what blocks have for the partitions of the next one, and how they are put in order there.

Rows come and go one at a time. A row with the number -1 says nothing; it is there because Spark asks for the next row
before it passes the last one on to Python. On a cluster each row has one behind it; on one machine our own shuffle
gives one out where no other row waits. A number below that says that an epoch ends, and before which block.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import chain

import pyarrow as pa

from wallaroo.engine.transport.buckets import spread_ids
from wallaroo.engine.transport.chunks import Chunk, pack_share, split_shares, unpack_share
from wallaroo.ingress.sequence import unpack_block

COLUMNS = "part int, block long, sender int, share binary"
_SCHEMA = pa.schema([("part", pa.int32()), ("block", pa.int64()), ("sender", pa.int32()), ("share", pa.binary())])
CONTENT, NOTHING = 0, -1
_TOGETHER_BYTES = 64 << 10
_TOGETHER_SECONDS = 0.005
"""How much blocks may have, and how long they may take, that share a row: the first of them waits for the last."""

Batches = Iterator[pa.RecordBatch]
Shares = list[list[Chunk]]
"""What a block has for each partition of the next stage."""


def end_before(block: int) -> int:
    """Return the number in a row that says that the epoch ends before `block`.

    >>> end_before(0), end_before(end_before(7))
    (-2, 7)
    """
    return -2 - block


class BlockOrder:
    """Puts what comes from the stage before into the order of the blocks."""

    def __init__(self, start: int, senders: int) -> None:
        self._next = start
        self._needed = senders
        """How many senders have a share of a block."""
        self._waiting: dict[int, dict[int, memoryview]] = {}
        self._ends: set[int] = set()
        """Before which blocks epochs end. Each sender says so before it sends what is behind."""
        self._last_end = start

    def take(
        self, block: pa.Scalar, sender: pa.Scalar, share: pa.Scalar
    ) -> Iterator[tuple[int, list[memoryview] | None]]:
        """Take a row; yield the blocks that are complete now and whose turn it is, with None where an epoch ends."""
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
    """Makes the rows for the partitions of the next stage.

    With `flushes`, each row has one behind it that says nothing. With `alone`, no block shares a row with another.
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
        """Yield a row for each partition that says nothing, which the shuffle on one machine gives out again."""
        yield self._flush

    def _batch(self, number: int, shares: pa.Array) -> pa.RecordBatch:
        numbers = pa.array([number] * self._partitions, pa.int64())
        return pa.RecordBatch.from_arrays([self._ids, numbers, self._senders, shares], schema=_SCHEMA)

    def rows(self, blocks: Iterator[Shares]) -> Batches:
        """Yield what blocks have for the partitions, a row for each, also where there is nothing in it.

        Small blocks that are computed at the same moment share a row, for each row has its price.
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
