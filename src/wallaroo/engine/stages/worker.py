"""The application inside a worker process: bound once, run block after block, with its live states.

A first stage takes blocks of the sequence, reads and decodes their messages, and runs them up to the next state. A
stage with state takes its partition's shares of a block, computes them and passes on the outputs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any

from wallaroo.engine.plan import Plan, StepRoute
from wallaroo.engine.stages.crash_guard import CallGuard
from wallaroo.engine.stages.dead_letter_replay import ReplayLine
from wallaroo.engine.stages.first_stage import FirstStage, Messages, PipelineLine, SourceLine, SourceMessages
from wallaroo.engine.stages.live_state import Bucket, StateLog
from wallaroo.engine.stages.outbox import USER_ERRORS, NotPicklableError, Outbox
from wallaroo.engine.stages.provenance import ArrivedSlice, Retracing
from wallaroo.engine.stages.state_files import BucketStores
from wallaroo.engine.stages.state_steps import BucketRun, StateStep, Work
from wallaroo.engine.state_manifest import BucketName
from wallaroo.engine.transport.dead_letter_record import PACKED, Letter
from wallaroo.engine.transport.shuffle_format import BLOCK, Chunk
from wallaroo.errors import WallarooError
from wallaroo.ingress.block_sequence import SequencedBlock, unpack_block
from wallaroo.ingress.lanes import Lane

_KEPT_AT_MOST = 16 << 20
"""How many bytes of messages are kept for rebuilding a state after an error before the states are written."""


class Worker:
    """One application in one worker process."""

    def __init__(self, plan: Plan, messages: Messages | None = None, outbox: Outbox | None = None) -> None:
        self.plan = plan
        self._messages = messages or SourceMessages(plan)
        self.outbox = outbox or Outbox(plan)
        self._lines: dict[str, SourceLine] = {}
        self._steps: dict[int, StateStep] = {}
        self._log = StateLog(plan.serializer, plan.run_id)
        self._retraced: Retracing | None = None
        self.fatal_first_calls: Mapping[int, Mapping[str, str]] = {}
        """By block: calls of the first stage that must not be made because processes have died in them."""

    def begin_task(self, fatal_first_calls: Mapping[int, Mapping[str, str]]) -> None:
        """Update which calls of the first stage are known to be fatal."""
        self._forget_retraced()
        self.fatal_first_calls = fatal_first_calls

    def _forget_retraced(self) -> None:
        if self._retraced is not None:
            self._retraced.close()
            self._retraced = None

    @contextlib.contextmanager
    def watched(self, watch: CallGuard) -> Iterator[None]:
        """Run with `watch` around every call of user code; user code is rebound for this."""
        bound = self._lines, self._steps
        self._lines, self._steps = {}, {}
        try:
            with self.outbox.watched_by(watch):
                yield
        finally:
            self._lines, self._steps = bound

    def run_first(self, block: SequencedBlock, partitions: int) -> list[list[Chunk]]:
        """Run the first stage on a block; return the shares for the partitions of the next stage."""
        carrier = block.number % partitions
        shares: list[list[Chunk]] = [[] for _ in range(partitions)]
        for share in shares:
            share.append(Chunk(BLOCK, 0, 0, block.pack()))
        self.outbox.clear()
        origin_of = partial(self._origin_of_packed, block)
        for part, _ in enumerate(self.run_ranges(block, self.outbox, self._line)):
            self.outbox.share_out(part, shares, carrier, origin_of)
        return shares

    def run_ranges(
        self, block: SequencedBlock, outbox: Outbox, line_of: Callable[[str], SourceLine | None]
    ) -> Generator[None, None, None]:
        """Run the lines of the sources on the ranges of a block; yields when the output should be taken.

        The same block always yields at the same points.
        """
        for source, first, end, lane in block.ranges:
            name = self.plan.sources[source]
            line = line_of(name)
            if line is None:
                raise WallarooError(
                    f"Block {block.number} has messages of the pipeline {name!r}, which the application no longer has. "
                    "Start it once more with that pipeline, so that they are processed"
                )
            outbox.current.lane = f"{name} {lane}"
            stage = FirstStage(outbox, line, lane)
            for at, payloads in self._messages.read(name, first, end, lane):
                yield from stage.run(at, payloads)

    def _line(self, name: str) -> SourceLine | None:
        if name not in self._lines:
            with self.outbox.capturing():
                made = self.make_line(name, self.outbox)
            if made is None:
                return None
            self._lines[name] = made
        return self._lines[name]

    def make_line(self, source: str, outbox: Outbox) -> SourceLine | None:
        """Return a new line for a source that outputs to `outbox`, or None if the source no longer exists."""
        if self.plan.brings_letters(source):
            return ReplayLine(self.plan, outbox)
        for pipeline in self.plan.application.pipelines:
            if pipeline.name == source:
                return PipelineLine(self.plan, outbox, pipeline)
        return None

    def _origin_of_packed(self, block: SequencedBlock, *which: Any) -> dict[str, Any]:
        """Return where a message came from that failed to be packed."""
        with contextlib.suppress(*USER_ERRORS):  # User code may not be deterministic.
            return self.retracing(block).origin_of_packed(*which) or {}
        return {}

    def retracing(self, block: SequencedBlock) -> Retracing:
        """Return a rerun of the first stage over a block; several errors in a block share one rerun."""
        if self._retraced is None or self._retraced.block != block:
            self._forget_retraced()
            self._retraced = Retracing(self, block)
        return self._retraced

    def open_stage(self, level: int, partition: int, partitions: int, files: BucketStores) -> Stage:
        """Return a stage with state, which begins with what is committed."""
        return Stage(self, self._log, level, partition, partitions, files)

    def prepare_sources(self) -> None:
        """Bind the first stage of every pipeline, so that constructor errors are found before the first message."""
        for pipeline in self.plan.application.pipelines:
            with _construction_errors_named(pipeline.name, "its source or a step before its first state"):
                self._line(pipeline.name)

    def prepare_level(self, level: int) -> None:
        """Bind the states of a level, for the same reason."""
        for route in self.plan.routes:
            if isinstance(route, StepRoute) and route.layout.level == level:
                with _construction_errors_named(route.pipeline.name, f"the step {route.step.name!r} or one after it"):
                    self.step(route.number)

    def try_states(self, level: int, names: Iterable[BucketName], files: BucketStores) -> None:
        """Load one entry of each saved state of a level, so that a missing class is found at the start.

        Raises:
            SavedStateError: A saved state cannot be loaded.
        """
        states = {state for state, layout in self.plan.layout.states.items() if layout.level == level}
        with self.outbox.capturing():
            for name in sorted(names):
                if name[0] in states:
                    states.remove(name[0])
                    self._log.try_loading(files.bucket(name))

    def step(self, number: int) -> StateStep:
        """Return a state step, bound."""
        if number not in self._steps:
            route = self.plan.routes[number]
            assert isinstance(route, StepRoute)
            self._steps[number] = StateStep(self.plan, route, self.outbox)
        return self._steps[number]


class Stage:
    """The states of one level in one partition, for as long as a task runs.

    The live objects end with it. If a task has failed, it is unknown which of them have changed since the commit.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - identity and dependencies of a stage
        self, worker: Worker, log: StateLog, level: int, partition: int, partitions: int, files: BucketStores
    ) -> None:
        self._worker = worker
        self._plan = worker.plan
        self._outbox = worker.outbox
        self._log = log
        self._level = level
        self._partition = partition
        self._partitions = partitions
        self._files = files
        self._buckets: dict[BucketName, Bucket] = {}
        """All buckets that have ever had messages here."""
        self._runs: dict[BucketName, BucketRun] = {}
        """Those that have had messages since the last save; the others are unchanged."""
        self._chunks: list[_ChunkForStates] = []
        """The chunks computed since the last save, still packed."""
        self._kept = 0
        self.ends: dict[Lane[int], int] = {}
        """For each lane, the end of the messages in the blocks received so far."""

    def run(self, shares: Iterable[Iterable[Chunk]]) -> list[list[Chunk]]:
        """Compute this partition's part of a block: the shares from the previous stage, in their order.

        Return the shares for the partitions of the next stage. Chunks for other stages are passed on.
        """
        onward: list[list[Chunk]] = [[] for _ in range(self._partitions)]
        chunks = sorted((chunk for share in shares for chunk in share), key=lambda chunk: chunk.part)
        block = next(unpack_block(chunk.body) for chunk in chunks if chunk.route == BLOCK)
        self.ends.update(block.ends)
        for share in onward:
            share.append(Chunk(BLOCK, 0, 0, block.pack()))
        self._outbox.clear()
        self._outbox.current.lane = ""
        for chunk in chunks:
            if chunk.route == BLOCK:
                continue
            if self._plan.level_of(chunk.route) != self._level:
                onward[self._partition].append(chunk)
                continue
            with self._outbox.capturing():
                self._run_chunk(block, chunk)
            # The part is kept with the output, so that the next stage can restore the order of the input.
            self._outbox.share_out(chunk.part, onward, self._partition, self._origin_of_output)
        if self._kept > _KEPT_AT_MOST:
            self._save()
            self._outbox.share_out(chunks[-1].part, onward, self._partition, self._origin_of_output)
        return onward

    def _run_chunk(self, block: SequencedBlock, chunk: Chunk) -> None:
        step = self._worker.step(chunk.route)
        try:
            # A view would keep the whole row in memory, as long as messages may have to be run again.
            arrived = _ChunkForStates(self._worker, block, chunk, step).on_its_own()
            keys, counts, messages = self._plan.serializer.load_stream(chunk.body)
            works = list(arrived.by_bucket(keys, counts))
        except USER_ERRORS as cause:
            # The sender checks each message class first, so this is rare; the chunk is kept undecoded.
            error = NotPicklableError(f"{chunk.number} messages that were packed together cannot be read: {cause}")
            route = self._plan.routes[chunk.route]
            origin = partial(dict[str, Any], source=route.pipeline.name)
            self._outbox.fail(step.place, bytes(chunk.body), error, None, origin=origin, encoding=PACKED)
            return
        state = step.step.state.name
        for bucket, work in works:
            self._run((state, bucket)).run(*work, messages)
        self._chunks.append(arrived)
        self._kept += len(chunk.body)

    def _run(self, name: BucketName) -> BucketRun:
        run = self._runs.get(name)
        if run is None:
            run = BucketRun(self._log, self._files.bucket(name), self._bucket(name), partial(self._earlier, name))
            self._runs[name] = run
        return run

    def _bucket(self, name: BucketName) -> Bucket:
        if name not in self._buckets:
            self._buckets[name] = self._log.open(self._files.bucket(name))
        return self._buckets[name]

    def states(self, name: BucketName) -> Mapping[Any, Any]:
        """Return the live objects of a bucket by key."""
        return self._bucket(name).objects

    def _earlier(self, name: BucketName) -> Iterator[Work]:
        """Yield a bucket's messages since its last save, up to the current chunk."""
        for arrived in self._chunks:
            if arrived.state == name[0]:
                yield from arrived.of_bucket(name[1])

    def _origin_of_output(self, route: int, *_: Any) -> dict[str, Any]:
        """Return where an output of a state came from that cannot be sent to the next state."""
        return {"source": self._plan.routes[route].pipeline.name}

    def _save(self) -> None:
        """Write all changes, and discard the messages kept so far."""
        with self._outbox.capturing():
            for run in self._runs.values():
                run.save()
        self._runs.clear()
        self._chunks.clear()
        self._kept = 0

    def end(self) -> list[Letter]:
        """Write all changes to disk; return the dead letters of states that could not be written."""
        self._outbox.clear()
        self._save()
        self._files.sync()
        return self._outbox.take_letters()


class _ChunkForStates:
    """A packed chunk of messages for a state, unpacked again only after an error."""

    def __init__(self, worker: Worker, block: SequencedBlock, chunk: Chunk, step: StateStep) -> None:
        self._worker = worker
        self._block = block
        self._chunk = chunk
        self._step = step
        self.state = step.step.state.name

    def on_its_own(self) -> _ChunkForStates:
        """Return a copy without the row it came in, which may be much larger."""
        chunk = self._chunk._replace(body=bytes(self._chunk.body))
        return _ChunkForStates(self._worker, self._block, chunk, self._step)

    def by_bucket(self, keys: list[Any], counts: list[int]) -> Iterator[tuple[int, Work]]:
        """Yield what each bucket has of the chunk."""
        marks = self._chunk.marks
        first = 0
        for bucket, number in zip(marks[::2], marks[1::2], strict=True):
            end = first + number
            mine = dict(zip(keys[first:end], counts[first:end], strict=True))
            if len(mine) < number:
                raise ValueError("some of their keys were different, and are equal after they were sent")
            yield bucket, Work(self._step, mine, ArrivedSlice(self._worker, self._block, self._chunk, mine, first))
            first = end

    def of_bucket(self, bucket: int) -> Iterator[Work]:
        """Yield the messages of one bucket, if there are any."""
        if bucket in self._chunk.marks[::2]:
            yield self._works[bucket]

    @cached_property
    def _works(self) -> dict[int, Work]:
        keys, counts, _ = self._worker.plan.serializer.load_stream(self._chunk.body)
        return dict(self.by_bucket(keys, counts))


@contextlib.contextmanager
def _construction_errors_named(pipeline: str, part: str) -> Iterator[None]:
    """Turn an exception of a user's constructor in a worker into a plain error."""
    try:
        yield
    except USER_ERRORS as error:
        raise WallarooError(f"Pipeline {pipeline!r}: {part} cannot be made in a worker: {error!r}") from error
