"""Rows between the stages: the shares of blocks for the partitions of the next stage, and how they are reordered there.

Rows are sent one at a time, and a large share in several of them: Spark copies each row more than once. A row with the
number -1 is empty; it is needed because Spark requests the next row before it passes the previous one to Python. On a
cluster each row is followed by one; on a single machine our own shuffle emits one when no other row is waiting. A
number below -1 marks the end of an epoch, and before which block it ends.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

import pyarrow as pa

from wallaroo.engine.transport.buckets import spread_ids
from wallaroo.engine.transport.shuffle_format import Chunk, pack_share, split_shares, unpack_share
from wallaroo.ingress.block_sequence import unpack_block

COLUMNS = "part int, block long, sender int, share binary"
_SCHEMA = pa.schema([("part", pa.int32()), ("block", pa.int64()), ("sender", pa.int32()), ("share", pa.binary())])
MORE, CONTENT, NOTHING = 1, 0, -1
"""The row numbers of content that continues in the next row of its sender, of other content, and of empty rows."""
_BATCH_BYTES = 8 << 20
"""How much the rows that are sent at once, one for each partition, may have."""
_MIN_ROW_BYTES = 256 << 10
"""A row may always have so much, however many partitions there are."""
_TOGETHER_BYTES = 64 << 10
_TOGETHER_SECONDS = 0.005
"""Limits on the size and duration of blocks that share a row: the first of them waits for the last."""

Batches = Iterator[pa.RecordBatch]
Shares = list[list[Chunk]]
"""The shares of a block for each partition of the next stage."""
WaitForRoom = Callable[[int, int, int], None]
"""Waits until the rows of some blocks may be sent: takes the first of these blocks, the last, and the size."""


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
        self._begun: defaultdict[int, list[memoryview]] = defaultdict(list)
        """By sender: the rows that continue in its next one."""
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
        if number == MORE:
            self._begun[sender.as_py()].append(memoryview(share.as_buffer()))
        elif number == CONTENT:
            self._take_shares(sender.as_py(), memoryview(share.as_buffer()))
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

    def _take_shares(self, sender: int, row: memoryview) -> None:
        if begun := self._begun.pop(sender, None):
            row = memoryview(b"".join([*begun, row]))
        for share in split_shares(row):
            block = unpack_block(next(unpack_share(share)).body).number
            self._waiting.setdefault(block, {})[sender] = share


class Shuffle:
    """Builds the rows for the partitions of the next stage.

    With `flushes`, each row is followed by an empty one. With `alone`, no block shares a row with another. Before a row
    is sent, `wait_for_room` is called.
    """

    def __init__(self, partitions: int, sender: int, wait_for_room: WaitForRoom, *, flushes: bool, alone: bool) -> None:
        self._ids = pa.array(spread_ids(partitions, partitions), pa.int32())
        self._sender = sender
        self._wait_for_room = wait_for_room
        self._row_bytes = max(_BATCH_BYTES // partitions, _MIN_ROW_BYTES)
        self._flush = self._empty(NOTHING)
        self._behind = (self._flush,) if flushes else ()
        self._most_bytes = 0 if alone else _TOGETHER_BYTES

    def begin(self) -> Batches:
        """Yield an empty row for each partition, which the shuffle on a single machine emits repeatedly."""
        yield self._flush

    def _batch(self, numbers: Sequence[int], shares: Mapping[int, bytes]) -> pa.RecordBatch:
        """Return rows with these numbers, and the shares of some partitions."""
        ids = self._ids.take(pa.array(shares, pa.int32()))
        senders = pa.array([self._sender] * len(ids), pa.int32())
        # pyarrow would never let go of views: these are bytes.
        contents = pa.array(shares.values(), pa.binary())
        return pa.RecordBatch.from_arrays([ids, pa.array(numbers, pa.int64()), senders, contents], schema=_SCHEMA)

    def _empty(self, number: int) -> pa.RecordBatch:
        return self._batch([number] * len(self._ids), dict.fromkeys(range(len(self._ids)), b""))

    def rows(self, blocks: Iterator[tuple[int, Shares]]) -> Batches:
        """Yield the shares of blocks, by number; each partition gets a row even if its share is empty.

        Small blocks computed at about the same time share a row, because each row has a cost.
        """
        together: dict[int, Shares] = {}
        size, began = 0, time.monotonic()
        for number, shares in blocks:
            together[number] = shares
            size += sum(len(chunk.body) for share in shares for chunk in share)
            if size >= self._most_bytes or time.monotonic() - began > _TOGETHER_SECONDS:
                yield from self._row(together, size)
                together = {}
                size, began = 0, time.monotonic()
        if together:
            yield from self._row(together, size)

    def _row(self, blocks: dict[int, Shares], size: int) -> Batches:
        self._wait_for_room(min(blocks), max(blocks), size)
        shares = [pack_share(chain.from_iterable(of_one)) for of_one in zip(*blocks.values(), strict=True)]
        blocks.clear()  # They may be large, and it may take a while until all is sent.
        for start in range(0, max(map(len, shares)), self._row_bytes):
            end = start + self._row_bytes
            now = {partition: share[start:end] for partition, share in enumerate(shares) if len(share) > start}
            yield self._batch([MORE if len(shares[each]) > end else CONTENT for each in now], now)
        yield from self._behind

    def to_all(self, number: int) -> Batches:
        """Yield a row without content for each partition."""
        yield self._empty(number)
        yield from self._behind
