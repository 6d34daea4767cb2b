"""The tasks of the query, as Spark runs them: they run until the query ends.

They read and write rows. At the end of an epoch the computed states are saved, and the tasks continue.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import groupby
from pathlib import Path

import pyarrow as pa

from wallaroo.engine.stages.crash_guard import GuardedTask, note_in
from wallaroo.engine.stages.first_stage import SourceMessages
from wallaroo.engine.stages.shuffle import NOTHING, Batches, BlockOrder, Shares, Shuffle, end_before
from wallaroo.engine.stages.state_files import StateFiles
from wallaroo.engine.stages.stdout_capture import catch_streams
from wallaroo.engine.stages.worker import Worker
from wallaroo.engine.transport.plan_file import PlanRef
from wallaroo.engine.transport.shuffle_format import pack_share, unpack_share
from wallaroo.engine.transport.task_channel import TaskChannel
from wallaroo.ingress.block_sequence import unpack_blocks
from wallaroo.ingress.lanes import Lane
from wallaroo.ingress.worker_client import RemoteMessages

_MUCH_STATE_BYTES = 64 << 20
"""How much state a task may write during an epoch before it requests its end: a failure would undo all of it."""


@dataclass(frozen=True)
class TaskSettings:
    """Settings shared by all tasks."""

    plan: PlanRef
    address: str
    token: str
    attempt: str
    partitions: int
    """The number of partitions of each stage with state."""
    readers: int
    levels: int
    states: str
    """The folder of the state files."""
    messages: str = ""
    """The address messages are fetched from; if empty, they are read from the logs on this machine."""
    tries_states: bool = True
    """Whether saved states are loaded before the first message, to find classes that have changed."""
    notes: str = ""
    """The folder where workers record their current calls; only if they run on the driver's machine."""


@lru_cache(maxsize=1)
def worker_for(ref: PlanRef, messages: str, token: str) -> Worker:
    """Return this process's worker for a plan; it fetches messages from the address `messages`, if given."""
    catch_streams()
    # Messages are allocated and freed by the ten thousand; by default Python collects garbage after every 700.
    gc.set_threshold(50_000, 20, 20)
    plan = ref.load()
    return Worker(plan, SourceMessages(plan, RemoteMessages(messages, token).log_of) if messages else None)


def first_stage(settings: TaskSettings) -> Callable[[Batches], Batches]:
    """Return the function that Spark runs for the first stage."""

    def run(batches: Batches) -> Batches:
        with _line(settings, -1) as (driver, partition):
            worker = worker_for(settings.plan, settings.messages, settings.token)
            worker.prepare_sources()
            task = FirstTask(settings, partition, driver, worker)
            yield from task.begin()
            for batch in received(batches):
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
            if settings.tries_states:
                worker.try_states(level, driver.welcome.heads, files)
            task = LaterTask(settings, level, partition, driver, worker, files)
            yield from task.begin()
            for batch in received(batches):
                yield from task.take(batch)

    return run


def received(batches: Batches) -> Batches:
    """Yield the rows that Spark sends to a task.

    Raises:
        EOFError: Spark has closed the connection in the middle, as it does while it ends a query that has failed.
    """
    while True:
        try:
            batch = next(batches, None)
        except pa.ArrowInvalid as error:
            raise EOFError(f"Spark has closed a worker's connection ({error})") from error
        if batch is None:
            return
        yield batch


class FirstTask:
    """A task of the first stage: reads rows of the source, and emits those for the next stage."""

    def __init__(self, settings: TaskSettings, partition: int, driver: TaskChannel, worker: Worker) -> None:
        self._worker = worker
        self._driver = driver
        self._is_last = settings.levels == 0
        self._partitions = 1 if self._is_last else settings.partitions
        self._task = GuardedTask(worker, note_in(settings.notes), driver.welcome.care)
        self._shuffle = _shuffle_of(settings, partition, driver)
        self._housekeeping = _GarbageCollection()
        self._ends: dict[Lane[int], int] = {}
        """For each lane, the end of the messages in the blocks received so far."""

    def begin(self) -> Batches:
        """Yield the rows that precede all others."""
        return self._shuffle.begin()

    def take(self, batch: pa.RecordBatch) -> Batches:
        """Process a row; yield the resulting rows."""
        number, content = (column[0] for column in batch.columns)
        said: int = number.as_py()
        if said > NOTHING:
            yield from self._shuffle.rows(self._compute(memoryview(content.as_buffer())))
        elif said < NOTHING:
            if self._is_last:
                self._driver.saved(end_before(said), self._ends, {})
            yield from self._shuffle.to_all(said)
            self._housekeeping.tidy_up()

    def _compute(self, content: memoryview) -> Iterator[tuple[int, Shares]]:
        for block in unpack_blocks(content):
            self._ends.update(block.ends)
            shares = self._task.run(block.number, partial(self._worker.run_first, block, self._partitions))
            if self._is_last:
                self._driver.output(block.number, pack_share(shares[0]))
            else:
                yield block.number, shares


class LaterTask:
    """A task of a stage with state: reads rows of the previous stage, and computes the blocks in order."""

    def __init__(  # noqa: PLR0913, PLR0917 - the task's identity and its dependencies
        self, settings: TaskSettings, level: int, partition: int, driver: TaskChannel, worker: Worker, files: StateFiles
    ) -> None:
        self._driver = driver
        self._files = files
        self._partition = partition
        self._is_last = level + 1 == settings.levels
        self._stage = worker.open_stage(level, partition, settings.partitions, files)
        self._task = GuardedTask(worker, note_in(settings.notes), driver.welcome.care)
        self._shuffle = _shuffle_of(settings, partition, driver)
        self._housekeeping = _GarbageCollection()
        # One task of the first stage has this task's share of a block; in later stages, every task has one.
        self._order = BlockOrder(driver.welcome.start, 1 if level == 0 else settings.partitions)
        self._has_asked = False
        """Whether it has requested the end of this epoch."""

    def begin(self) -> Batches:
        """Yield the rows that precede all others."""
        return self._shuffle.begin()

    def take(self, batch: pa.RecordBatch) -> Batches:
        """Process a row; yield the resulting rows."""
        come = self._order.take(*(column[0] for column in batch.columns[1:]))
        for is_end, some in groupby(come, lambda each: each[1] is None):
            if is_end:
                for block, _ in some:
                    yield from self._end_epoch(block)
            else:
                yield from self._shuffle.rows(self._compute(some))

    def _compute(self, blocks: Iterator[tuple[int, list[memoryview] | None]]) -> Iterator[tuple[int, Shares]]:
        for block, shares in blocks:
            computed = self._task.run(block, partial(self._stage.run, map(unpack_share, shares or ())))
            if self._files.written > _MUCH_STATE_BYTES and not self._has_asked:
                self._has_asked = True
                self._driver.enough_changed(block)
            if self._is_last:
                self._driver.output(block, pack_share(computed[self._partition]))
            else:
                yield block, computed

    def _end_epoch(self, block: int) -> Batches:
        if not self._is_last:
            yield from self._shuffle.to_all(end_before(block))
        letters = self._stage.end()
        self._driver.saved(block, self._stage.ends, self._files.changed(), letters)
        self._files.begin_epoch()
        self._has_asked = False
        self._housekeeping.tidy_up()


def _shuffle_of(settings: TaskSettings, partition: int, driver: TaskChannel) -> Shuffle:
    # If a process has died on a block, the output of earlier blocks must be sent before the next such block is run.
    alone = bool(driver.welcome.care.blocks)
    return Shuffle(settings.partitions, partition, driver.wait_for_room, flushes=bool(settings.messages), alone=alone)


@contextmanager
def _line(settings: TaskSettings, level: int) -> Iterator[tuple[TaskChannel, int]]:
    from pyspark import TaskContext  # noqa: PLC0415 - only in a task

    context = TaskContext.get()
    assert context is not None
    partition = context.partitionId()
    note = note_in(settings.notes).name
    driver = TaskChannel(settings.address, settings.token, settings.attempt, level, partition, note)
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


class _GarbageCollection:
    """Keeps the garbage collector from scanning the live states.

    Frozen objects are skipped. Cyclic garbage among them is collected occasionally, rarely enough that the cost is
    negligible.
    """

    def __init__(self) -> None:
        self._next_collection = time.monotonic() + 10.0

    def tidy_up(self) -> None:
        """Freeze live objects; when a full collection is due, run it first."""
        started = time.monotonic()
        if started >= self._next_collection:
            gc.unfreeze()
            gc.collect()
            took = time.monotonic() - started
            self._next_collection = started + max(10.0, 1000 * took)
        gc.freeze()
