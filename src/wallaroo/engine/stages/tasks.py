"""The tasks of the query, as Spark runs them: long ones, which end with the query.

Rows come and go one at a time. A row with the number -1 says nothing; it is there because Spark asks for the next row
before it passes the last one on to Python. On a cluster each row has one behind it; on one machine our own shuffle
gives one out where no other row waits. A number below that says that an epoch ends, and before which block: what has
been computed is then saved, and the tasks go on.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path

import pyarrow as pa

from wallaroo.engine.stages.careful import CarefulTask, note_in
from wallaroo.engine.stages.messages import SourceMessages
from wallaroo.engine.stages.printing import catch_streams
from wallaroo.engine.stages.state_store import StateFiles
from wallaroo.engine.stages.worker import Worker
from wallaroo.engine.transport.buckets import spread_ids
from wallaroo.engine.transport.hand_in import HandIn
from wallaroo.engine.transport.shares import Chunk, pack_share, split_shares, unpack_share
from wallaroo.engine.transport.shipping import PlanRef
from wallaroo.ingress.fetching import FetchedMessages
from wallaroo.ingress.sequence import unpack_block, unpack_blocks

COLUMNS = "part int, block long, sender int, share binary"
_SCHEMA = pa.schema([("part", pa.int32()), ("block", pa.int64()), ("sender", pa.int32()), ("share", pa.binary())])
CONTENT, NOTHING = 0, -1

Batches = Iterator[pa.RecordBatch]
Shares = list[list[Chunk]]
"""What a block has for each partition of the next stage."""


@dataclass(frozen=True)
class TaskSettings:
    """What every task needs to know."""

    plan: PlanRef
    address: str
    token: str
    attempt: str
    partitions: int
    """Of each stage with state."""
    readers: int
    levels: int
    states: str
    """The folder of the states' files."""
    messages: str = ""
    """Where messages are fetched from; where it is empty, they are read from the logs of this machine."""
    notes: str = ""
    """The folder of what workers are at; only where they are on the driver's machine."""


def end_before(block: int) -> int:
    """Return the number in a row that says that the epoch ends before `block`.

    >>> end_before(0), end_before(end_before(7))
    (-2, 7)
    """
    return -2 - block


@lru_cache(maxsize=1)
def worker_for(ref: PlanRef, messages: str, token: str) -> Worker:
    """Return this process's worker for a plan, which has its messages from the address `messages`, if there is one."""
    catch_streams()
    # Messages come and go by the ten thousand; Python's own setting looks for garbage after every 700.
    gc.set_threshold(50_000, 20, 20)
    plan = ref.load()
    return Worker(plan, SourceMessages(plan, FetchedMessages(messages, token).log_of) if messages else None)


def first_stage(settings: TaskSettings) -> Callable[[Batches], Batches]:
    """Return the function that Spark runs for the first stage."""

    def run(batches: Batches) -> Batches:
        with _line(settings, -1) as (driver, partition):
            worker = worker_for(settings.plan, settings.messages, settings.token)
            worker.prepare_sources()
            task = FirstTask(settings, partition, driver, worker)
            yield from task.begin()
            for batch in batches:
                yield from task.take(batch)

    return run


def later_stage(settings: TaskSettings, level: int) -> Callable[[Batches], Batches]:
    """Return the function that Spark runs for a stage with state."""

    def run(batches: Batches) -> Batches:
        with (
            _line(settings, level) as (driver, partition),
            closing(StateFiles(Path(settings.states), driver.welcome.heads)) as files,
        ):
            worker = worker_for(settings.plan, settings.messages, settings.token)
            worker.prepare_level(level)
            task = LaterTask(settings, level, partition, driver, worker, files)
            yield from task.begin()
            for batch in batches:
                yield from task.take(batch)

    return run


class FirstTask:
    """A task of the first stage: takes rows of the source, and makes those for the stage behind."""

    def __init__(self, settings: TaskSettings, partition: int, driver: HandIn, worker: Worker) -> None:
        self._worker = worker
        self._driver = driver
        self._is_last = settings.levels == 0
        self._partitions = 1 if self._is_last else settings.partitions
        self._task = CarefulTask(worker, note_in(settings.notes), driver.welcome.care)
        self._shuffle = _Shuffle(settings.partitions, partition, flushes=bool(settings.messages))
        self._housekeeping = _Housekeeping()
        self._ends: dict[int, int] = {}
        """Up to which message of each source blocks have come here."""

    def begin(self) -> Batches:
        """Yield what comes before all other rows."""
        return self._shuffle.begin()

    def take(self, batch: pa.RecordBatch) -> Batches:
        """Take a row; yield the rows that come of it."""
        number, content = (column[0] for column in batch.columns)
        said: int = number.as_py()
        if said > NOTHING:
            yield from self._compute(memoryview(content.as_buffer()))
        elif said < NOTHING:
            if self._is_last:
                self._driver.saved(end_before(said), self._ends, {})
            yield from self._shuffle.to_all(said)
            self._housekeeping.tidy_up()

    def _compute(self, content: memoryview) -> Batches:
        onward: list[Shares] = []
        for block in unpack_blocks(content):
            self._ends.update(block.ends)
            shares = self._task.run(block.number, partial(self._worker.run_first, block, self._partitions))
            if self._is_last:
                self._driver.output(block.number, pack_share(shares[0]))
            else:
                onward.append(shares)
        yield from self._shuffle.rows(onward)


class LaterTask:
    """A task of a stage with state: takes rows of the stage before, and computes the blocks in their order."""

    def __init__(  # noqa: PLR0913, PLR0917 - which task it is, and what it works with
        self, settings: TaskSettings, level: int, partition: int, driver: HandIn, worker: Worker, files: StateFiles
    ) -> None:
        self._driver = driver
        self._files = files
        self._partition = partition
        self._is_last = level + 1 == settings.levels
        self._stage = worker.open_stage(level, partition, settings.partitions, files)
        self._task = CarefulTask(worker, note_in(settings.notes), driver.welcome.care)
        self._shuffle = _Shuffle(settings.partitions, partition, flushes=bool(settings.messages))
        self._housekeeping = _Housekeeping()
        # Of a block, one task of the first stage has a share for this one; of later stages, all have.
        self._order = InOrder(driver.welcome.start, 1 if level == 0 else settings.partitions)

    def begin(self) -> Batches:
        """Yield what comes before all other rows."""
        return self._shuffle.begin()

    def take(self, batch: pa.RecordBatch) -> Batches:
        """Take a row; yield the rows that come of it."""
        onward: list[Shares] = []
        for block, shares in self._order.take(*(column[0] for column in batch.columns[1:])):
            if shares is None:
                yield from self._shuffle.rows(onward)
                onward = []
                yield from self._end_epoch(block)
                continue
            computed = self._task.run(block, partial(self._stage.run, map(unpack_share, shares)))
            if self._is_last:
                self._driver.output(block, pack_share(computed[self._partition]))
            else:
                onward.append(computed)
        yield from self._shuffle.rows(onward)

    def _end_epoch(self, block: int) -> Batches:
        if not self._is_last:
            yield from self._shuffle.to_all(end_before(block))
        letters = self._stage.end()
        self._driver.saved(block, self._stage.ends, self._files.changed(), letters)
        self._files.begin_epoch()
        self._housekeeping.tidy_up()


class InOrder:
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


class _Shuffle:
    """Makes the rows for the partitions of the next stage."""

    def __init__(self, partitions: int, sender: int, *, flushes: bool) -> None:
        self._ids = pa.array(spread_ids(partitions, partitions), pa.int32())
        self._senders = pa.array([sender] * partitions, pa.int32())
        self._nothing = pa.array([b""] * partitions, pa.binary())
        self._partitions = partitions
        self._flush = self._batch(NOTHING, self._nothing)
        self._behind = (self._flush,) if flushes else ()

    def begin(self) -> Batches:
        """Yield a row for each partition that says nothing, which the shuffle on one machine gives out again."""
        yield self._flush

    def _batch(self, number: int, shares: pa.Array) -> pa.RecordBatch:
        numbers = pa.array([number] * self._partitions, pa.int64())
        return pa.RecordBatch.from_arrays([self._ids, numbers, self._senders, shares], schema=_SCHEMA)

    def rows(self, blocks: list[Shares]) -> Batches:
        """Yield what blocks have for the partitions, one row for each, also where there is nothing in it."""
        if blocks:
            joined = (pack_share(chain.from_iterable(of_one)) for of_one in zip(*blocks, strict=True))
            yield self._batch(CONTENT, pa.array(joined, pa.binary()))
            yield from self._behind

    def to_all(self, number: int) -> Batches:
        """Yield a row without content for each partition."""
        yield self._batch(number, self._nothing)
        yield from self._behind


@contextmanager
def _line(settings: TaskSettings, level: int) -> Iterator[tuple[HandIn, int]]:
    from pyspark import TaskContext  # noqa: PLC0415 - only in a task

    context = TaskContext.get()
    assert context is not None
    partition = context.partitionId()
    note = note_in(settings.notes).name
    driver = HandIn(settings.address, settings.token, settings.attempt, level, partition, note)
    try:
        yield driver, partition
        driver.done()
    except GeneratorExit:
        driver.done()
        raise
    except BaseException as error:
        driver.failed(error)
        raise
    finally:
        driver.close()


class _Housekeeping:
    """Keeps the garbage collector off the live states.

    What is frozen is skipped. Garbage in cycles that were frozen alive is collected now and then, so seldom that it
    costs next to nothing.
    """

    def __init__(self) -> None:
        self._next_collection = time.monotonic() + 10.0

    def tidy_up(self) -> None:
        """Freeze what is alive; when its time has come, look for garbage among it first."""
        started = time.monotonic()
        if started >= self._next_collection:
            gc.unfreeze()
            gc.collect()
            took = time.monotonic() - started
            self._next_collection = started + max(10.0, 1000 * took)
        gc.freeze()
