"""What runs inside a worker process: the application, bound once, block after block, and its live states.

A first stage takes blocks of the sequence: reads the messages, decodes them, and takes them up to the next state. A
stage with state takes the shares that its partition has of a block, computes them and passes on what comes out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any

from wallaroo.engine.plan import Plan, StepRoute
from wallaroo.engine.stages.crash_guard import CallGuard
from wallaroo.engine.stages.first_stage import FirstStage, Messages, PipelineLine, SourceLine, SourceMessages
from wallaroo.engine.stages.live_state import Bucket, StateLog
from wallaroo.engine.stages.outbox import USER_ERRORS, NotPicklableError, Outbox
from wallaroo.engine.stages.provenance import ArrivedSlice, Retracing
from wallaroo.engine.stages.replay import ReplayLine
from wallaroo.engine.stages.state_steps import BucketRun, StateStep, Work
from wallaroo.engine.stages.state_store import BucketStores
from wallaroo.engine.state_heads import BucketName
from wallaroo.engine.transport.chunks import BLOCK, Chunk
from wallaroo.engine.transport.dead_letter_record import PACKED, Letter
from wallaroo.errors import WallarooError
from wallaroo.ingress.sequence import SequencedBlock, unpack_block

_KEPT_AT_MOST = 16 << 20
"""How many bytes of messages are kept, to make a state again after an error, before the states are written."""


class Worker:
    """One application in one worker process."""

    def __init__(self, plan: Plan, messages: Messages | None = None, outbox: Outbox | None = None) -> None:
        self.plan = plan
        self._messages = messages or SourceMessages(plan)
        self.outbox = outbox or Outbox(plan)
        self._lines: dict[str, SourceLine] = {}
        self._steps: dict[int, StateStep] = {}
        self._live: dict[BucketName, Bucket] = {}
        self._log = StateLog(plan.serializer, plan.run_id)
        self._retraced: Retracing | None = None
        self.fatal_first_calls: Mapping[int, Mapping[str, str]] = {}
        """By block: calls of the first stage that must not be made, for processes have died at them."""

    def begin_task(self, fatal_first_calls: Mapping[int, Mapping[str, str]]) -> None:
        """Go by what is known now to be fatal in the first stage."""
        self._forget_retraced()
        self.fatal_first_calls = fatal_first_calls

    def _forget_retraced(self) -> None:
        if self._retraced is not None:
            self._retraced.close()
            self._retraced = None

    @contextlib.contextmanager
    def watched(self, watch: CallGuard) -> Iterator[None]:
        """Run with a watch over every call of user code, which is bound anew for it."""
        bound = self._lines, self._steps
        self._lines, self._steps = {}, {}
        try:
            with self.outbox.watched_by(watch):
                yield
        finally:
            self._lines, self._steps = bound

    def run_first(self, block: SequencedBlock, partitions: int) -> list[list[Chunk]]:
        """Run the first stage on a block; return the shares of the partitions behind it."""
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
        """Run the lines of the sources on the ranges of a block; yields where the output is to be taken.

        These are the same places whenever the same block is run.
        """
        for source, first, end in block.ranges:
            name = self.plan.sources[source]
            line = line_of(name)
            if line is None:
                raise WallarooError(
                    f"Block {block.number} has messages of the pipeline {name!r}, which the application no longer has. "
                    "Start it once more with that pipeline, so that they are processed"
                )
            outbox.current.source = name
            stage = FirstStage(outbox, line)
            for at, payloads in self._messages.read(name, first, end):
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
        """Return a new line for a source that puts into `outbox`, None where there is no such source any more."""
        if self.plan.brings_letters(source):
            return ReplayLine(self.plan, outbox)
        for pipeline in self.plan.application.pipelines:
            if pipeline.name == source:
                return PipelineLine(self.plan, outbox, pipeline)
        return None

    def _origin_of_packed(self, block: SequencedBlock, *which: Any) -> dict[str, Any]:
        """Say where a message came from that failed when it was packed."""
        with contextlib.suppress(*USER_ERRORS):  # User code may not do the same again.
            return self.retracing(block).origin_of_packed(*which) or {}
        return {}

    def retracing(self, block: SequencedBlock) -> Retracing:
        """Return the first stage once more over a block; many errors in a block cost it once."""
        if self._retraced is None or self._retraced.block != block:
            self._forget_retraced()
            self._retraced = Retracing(self, block)
        return self._retraced

    def states(self, name: BucketName, files: BucketStores) -> Mapping[Any, Any]:
        """Return the states of a bucket as they were last saved, by key: the live objects where these are exact."""
        bucket = self._log.open(files.bucket(name), self.take_live(name))
        self.bring_back(name, bucket)
        return bucket.objects

    def open_stage(self, level: int, partition: int, partitions: int, files: BucketStores) -> Stage:
        """Return a stage with state, for the time from one commit to the next."""
        return Stage(self, self._log, level, partition, partitions, files)

    def take_live(self, name: BucketName) -> Bucket | None:
        """Return the live objects of a bucket, for somebody who changes them and brings them back when all is well."""
        return self._live.pop(name, None)

    def bring_back(self, name: BucketName, bucket: Bucket) -> None:
        """Keep the live objects of a bucket for the next time."""
        self._live[name] = bucket

    def prepare_sources(self) -> None:
        """Bind the first stage of every pipeline, so that what cannot be made is found before the first message."""
        for pipeline in self.plan.application.pipelines:
            with _told(pipeline.name, "its source or a step before its first state"):
                self._line(pipeline.name)

    def prepare_level(self, level: int) -> None:
        """The same for the states of a level."""
        for route in self.plan.routes:
            if isinstance(route, StepRoute) and route.layout.level == level:
                with _told(route.pipeline.name, f"the step {route.step.name!r} or one after it"):
                    self.step(route.number)

    def try_states(self, level: int, names: Iterable[BucketName], files: BucketStores) -> None:
        """Load a little of each state of a level that has been saved, so that a class that is gone is found now.

        Raises:
            SavedStateError: It cannot be loaded.
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
    """The states of one level in one partition, from one commit to the next."""

    def __init__(  # noqa: PLR0913, PLR0917 - what makes a stage
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
        """All that have ever had messages here."""
        self._runs: dict[BucketName, BucketRun] = {}
        """Of those that have had messages since the states were saved: the others are as they were saved."""
        self._chunks: list[_ChunkForStates] = []
        """What has been computed since the states were saved, as it travelled."""
        self._kept = 0
        self.ends: dict[int, int] = {}
        """Up to which message of each source blocks have come here."""

    def run(self, shares: Iterable[Iterable[Chunk]]) -> list[list[Chunk]]:
        """Compute what this partition has of a block: the shares that came from the stage before, in their order.

        Return the shares of the partitions behind. What is not for this stage is passed on.
        """
        onward: list[list[Chunk]] = [[] for _ in range(self._partitions)]
        chunks = sorted((chunk for share in shares for chunk in share), key=lambda chunk: chunk.part)
        block = next(unpack_block(chunk.body) for chunk in chunks if chunk.route == BLOCK)
        self.ends.update(block.ends)
        for share in onward:
            share.append(Chunk(BLOCK, 0, 0, block.pack()))
        self._outbox.clear()
        self._outbox.current.source = ""
        for chunk in chunks:
            if chunk.route == BLOCK:
                continue
            if self._plan.level_of(chunk.route) != self._level:
                onward[self._partition].append(chunk)
                continue
            with self._outbox.capturing():
                self._run_chunk(block, chunk)
            # Together with where it came from, so that the next stage can put it into the order of the input.
            self._outbox.share_out(chunk.part, onward, self._partition, self._origin_of_output)
        if self._kept > _KEPT_AT_MOST:
            self._save()
            self._outbox.share_out(chunks[-1].part, onward, self._partition, self._origin_of_output)
        return onward

    def _run_chunk(self, block: SequencedBlock, chunk: Chunk) -> None:
        step = self._worker.step(chunk.route)
        try:
            arrived = _ChunkForStates(self._worker, block, chunk, step)
            works = arrived.by_bucket(self._plan.serializer.load_flat(chunk.body))
        except USER_ERRORS as cause:
            # The sender tries each class of message before it relies on it, so this is rare; it is kept as it is.
            error = NotPicklableError(f"{chunk.number} messages that were packed together cannot be read: {cause}")
            route = self._plan.routes[chunk.route]
            origin = partial(dict[str, Any], source=route.pipeline.name)
            self._outbox.fail(step.place, bytes(chunk.body), error, None, origin=origin, encoding=PACKED)
            return
        state = step.step.state.name
        for bucket, work in works:
            self._run((state, bucket)).run(*work)
        self._chunks.append(arrived.on_its_own())
        self._kept += len(chunk.body)

    def _run(self, name: BucketName) -> BucketRun:
        run = self._runs.get(name)
        if run is None:
            store = self._files.bucket(name)
            if name not in self._buckets:
                # Taken out while it is being changed: if this task dies half-way, nobody must find it here.
                self._buckets[name] = self._log.open(store, self._worker.take_live(name))
            run = BucketRun(self._log, store, self._buckets[name], partial(self._earlier, name))
            self._runs[name] = run
        return run

    def _earlier(self, name: BucketName) -> Iterator[Work]:
        """Yield what a bucket has had since its states were saved, up to the chunk at hand."""
        for arrived in self._chunks:
            if arrived.state == name[0]:
                yield from arrived.of_bucket(name[1])

    def _origin_of_output(self, route: int, *_: Any) -> dict[str, Any]:
        """Say where an output of a state came from that cannot be sent to the next one."""
        return {"source": self._plan.routes[route].pipeline.name}

    def _save(self) -> None:
        """Write what has changed, and begin to keep messages anew."""
        with self._outbox.capturing():
            for run in self._runs.values():
                run.save()
        self._runs.clear()
        self._chunks.clear()
        self._kept = 0

    def end(self) -> list[Letter]:
        """Write all that has changed to the disk; return the dead letters of what could not be written."""
        self._outbox.clear()
        self._save()
        self._files.sync()
        return self._outbox.take_letters()

    def keep(self) -> None:
        """Keep the live objects for the time after the commit, which has been made."""
        for name, bucket in self._buckets.items():
            self._worker.bring_back(name, bucket)


class _ChunkForStates:
    """A chunk of messages for a state, as it travelled: taken apart once more only where an error asks for it."""

    def __init__(self, worker: Worker, block: SequencedBlock, chunk: Chunk, step: StateStep) -> None:
        self._worker = worker
        self._block = block
        self._chunk = chunk
        self._step = step
        self.state = step.step.state.name

    def on_its_own(self) -> _ChunkForStates:
        """Return it without the row that it came in, which may be much larger."""
        chunk = self._chunk._replace(body=bytes(self._chunk.body))
        return _ChunkForStates(self._worker, self._block, chunk, self._step)

    def by_bucket(self, loaded: tuple[list[Any], list[int], list[Any]]) -> Iterator[tuple[int, Work]]:
        """Yield the messages of each bucket."""
        keys, counts, flat = loaded
        marks = self._chunk.marks
        first = at = 0
        for bucket, number in zip(marks[::2], marks[1::2], strict=True):
            messages = {}
            for key, count in zip(keys[first : first + number], counts[first : first + number], strict=True):
                messages[key] = flat[at : at + count]
                at += count
            arrived = ArrivedSlice(self._worker, self._block, self._chunk, messages, first)
            yield bucket, Work(self._step, messages, arrived)
            first += number

    def of_bucket(self, bucket: int) -> Iterator[Work]:
        """Yield the messages of one bucket, if there are any."""
        if bucket in self._chunk.marks[::2]:
            yield self._works[bucket]

    @cached_property
    def _works(self) -> dict[int, Work]:
        return dict(self.by_bucket(self._worker.plan.serializer.load_flat(self._chunk.body)))


@contextlib.contextmanager
def _told(pipeline: str, part: str) -> Iterator[None]:
    """Turn what a constructor of the user's raises in a worker into a plain error."""
    try:
        yield
    except USER_ERRORS as error:
        raise WallarooError(f"Pipeline {pipeline!r}: {part} cannot be made in a worker: {error!r}") from error
