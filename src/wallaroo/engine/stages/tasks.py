"""The tasks of the query, as Spark runs them: long ones, which end with the query.

They take rows and make rows. Where an epoch ends, what has been computed is saved, and the tasks go on.
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

from wallaroo.engine.stages.captured_output import catch_streams
from wallaroo.engine.stages.crash_guard import GuardedTask, note_in
from wallaroo.engine.stages.first_stage import SourceMessages
from wallaroo.engine.stages.shuffle import NOTHING, Batches, BlockOrder, Shares, Shuffle, end_before
from wallaroo.engine.stages.state_store import StateFiles
from wallaroo.engine.stages.worker import Worker
from wallaroo.engine.transport.chunks import pack_share, unpack_share
from wallaroo.engine.transport.plan_file import PlanRef
from wallaroo.engine.transport.task_channel import TaskChannel
from wallaroo.engine.transport.worker_notes import Care
from wallaroo.ingress.sequence import unpack_blocks
from wallaroo.ingress.worker_client import RemoteMessages

_MUCH_STATE_BYTES = 64 << 20
"""How much state a task writes in the middle of an epoch before it asks for its end: a failure would undo it all."""


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


@lru_cache(maxsize=1)
def worker_for(ref: PlanRef, messages: str, token: str) -> Worker:
    """Return this process's worker for a plan, which has its messages from the address `messages`, if there is one."""
    catch_streams()
    # Messages come and go by the ten thousand; Python's own setting looks for garbage after every 700.
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
            worker.try_states(level, driver.welcome.heads, files)
            task = LaterTask(settings, level, partition, driver, worker, files)
            yield from task.begin()
            for batch in batches:
                yield from task.take(batch)

    return run


class FirstTask:
    """A task of the first stage: takes rows of the source, and makes those for the stage behind."""

    def __init__(self, settings: TaskSettings, partition: int, driver: TaskChannel, worker: Worker) -> None:
        self._worker = worker
        self._driver = driver
        self._is_last = settings.levels == 0
        self._partitions = 1 if self._is_last else settings.partitions
        self._task = GuardedTask(worker, note_in(settings.notes), driver.welcome.care)
        self._shuffle = _shuffle_of(settings, partition, driver.welcome.care)
        self._housekeeping = _GarbageCollection()
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
            yield from self._shuffle.rows(self._compute(memoryview(content.as_buffer())))
        elif said < NOTHING:
            if self._is_last:
                self._driver.saved(end_before(said), self._ends, {})
            yield from self._shuffle.to_all(said)
            self._housekeeping.tidy_up()

    def _compute(self, content: memoryview) -> Iterator[Shares]:
        for block in unpack_blocks(content):
            self._ends.update(block.ends)
            shares = self._task.run(block.number, partial(self._worker.run_first, block, self._partitions))
            if self._is_last:
                self._driver.output(block.number, pack_share(shares[0]))
            else:
                yield shares


class LaterTask:
    """A task of a stage with state: takes rows of the stage before, and computes the blocks in their order."""

    def __init__(  # noqa: PLR0913, PLR0917 - which task it is, and what it works with
        self, settings: TaskSettings, level: int, partition: int, driver: TaskChannel, worker: Worker, files: StateFiles
    ) -> None:
        self._driver = driver
        self._files = files
        self._partition = partition
        self._is_last = level + 1 == settings.levels
        self._stage = worker.open_stage(level, partition, settings.partitions, files)
        self._task = GuardedTask(worker, note_in(settings.notes), driver.welcome.care)
        self._shuffle = _shuffle_of(settings, partition, driver.welcome.care)
        self._housekeeping = _GarbageCollection()
        # Of a block, one task of the first stage has a share for this one; of later stages, all have.
        self._order = BlockOrder(driver.welcome.start, 1 if level == 0 else settings.partitions)
        self._has_asked = False
        """Whether it has asked for the end of this epoch."""

    def begin(self) -> Batches:
        """Yield what comes before all other rows."""
        return self._shuffle.begin()

    def take(self, batch: pa.RecordBatch) -> Batches:
        """Take a row; yield the rows that come of it."""
        come = self._order.take(*(column[0] for column in batch.columns[1:]))
        for is_end, some in groupby(come, lambda each: each[1] is None):
            if is_end:
                for block, _ in some:
                    yield from self._end_epoch(block)
            else:
                yield from self._shuffle.rows(self._compute(some))

    def _compute(self, blocks: Iterator[tuple[int, list[memoryview] | None]]) -> Iterator[Shares]:
        for block, shares in blocks:
            computed = self._task.run(block, partial(self._stage.run, map(unpack_share, shares or ())))
            if self._files.written > _MUCH_STATE_BYTES and not self._has_asked:
                self._has_asked = True
                self._driver.enough_changed(block)
            if self._is_last:
                self._driver.output(block, pack_share(computed[self._partition]))
            else:
                yield computed

    def _end_epoch(self, block: int) -> Batches:
        if not self._is_last:
            yield from self._shuffle.to_all(end_before(block))
        letters = self._stage.end()
        self._driver.saved(block, self._stage.ends, self._files.changed(), letters)
        self._files.begin_epoch()
        self._has_asked = False
        self._housekeeping.tidy_up()


def _shuffle_of(settings: TaskSettings, partition: int, care: Care) -> Shuffle:
    # Where a process has died at a block, what is in front of the next such block has to get out.
    return Shuffle(settings.partitions, partition, flushes=bool(settings.messages), alone=bool(care.blocks))


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
