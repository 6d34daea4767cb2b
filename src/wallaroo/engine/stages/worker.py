"""What runs inside a worker process: the application, bound once, and the live state of the buckets seen here."""

from __future__ import annotations

import contextlib
import gc
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from wallaroo.engine.plan import Plan, StepRoute
from wallaroo.engine.stages.attempts import Attempts, running_now
from wallaroo.engine.stages.first_stage import FirstStage, PipelineLine, SourceLine
from wallaroo.engine.stages.origins import ArrivedChunk, Retracing
from wallaroo.engine.stages.outbox import USER_ERRORS, NotPicklableError, Outbox
from wallaroo.engine.stages.printing import catch_streams
from wallaroo.engine.stages.replaying import SEQUENCE, ReplayLine
from wallaroo.engine.stages.state import Bucket, BucketStore, StateLog
from wallaroo.engine.stages.stateful import BucketRun, StateStep
from wallaroo.engine.transport.buckets import spark_hash
from wallaroo.engine.transport.chunks import NUDGE, Chunk
from wallaroo.engine.transport.letters import PACKED
from wallaroo.engine.transport.shipping import PlanRef
from wallaroo.engine.transport.spool import SpoolWriter
from wallaroo.errors import WallarooError
from wallaroo.ingress.log_reader import LogReader
from wallaroo.topology.model import REPLAYS

_FORGET_AFTER_SECONDS = 300.0


class Worker:
    """One application in one worker process."""

    def __init__(self, plan: Plan, outbox: Outbox | None = None, attempts: Attempts | None = None) -> None:
        self.plan = plan
        self._outbox = outbox or Outbox(plan)
        self._sources: dict[str, SourceLine] = {}
        self._retracings: dict[tuple[str, int], Retracing] = {}
        self._steps: dict[int, StateStep] = {}
        self._log = StateLog(self.plan.serializer, self.plan.run_id)
        self._serializer = self.plan.serializer
        self._live: OrderedDict[tuple[int, str], tuple[float, Bucket]] = OrderedDict()
        self._spool = SpoolWriter(plan.spool) if plan.spool else None
        self._attempts = attempts
        self._housekeeping = _Housekeeping()

    def run_source(self, source: str, start: int, pieces: Iterable[tuple[int, list[bytes]]]) -> Iterator[Chunk]:
        """Run the first stage: payloads of a source, through its decoder and the steps before the first state."""
        return self._attempted(lambda worker: worker.run_range(source, start, pieces), _range(source), start)

    def _attempted(
        self, run: Callable[[Worker], Iterator[Chunk]], place: tuple[Any, ...], first: Any
    ) -> Iterator[Chunk]:
        """Run something with a note of it: by a worker that is made for it, and watched, where one has died at it."""
        if self._attempts is None:
            yield from run(self)
            return
        watch = self._attempts.begin(place, first)
        worker = self if watch is None else Worker(self.plan, Outbox(self.plan, watch), self._attempts)
        try:
            yield from run(worker)
        finally:
            self._attempts.end()
            if worker is not self:
                worker.end_of_task()

    def run_range(self, source: str, start: int, pieces: Iterable[tuple[int, list[bytes]]]) -> Iterator[Chunk]:
        """Run the first stage as it is."""
        outbox = self._outbox
        outbox.clear()
        stage = FirstStage(outbox, self._source(source))
        outbox.origin_of_packed = partial(self._origin_of_packed, source, start)
        carrier = self.plan.layout.carriers[start % self.plan.layout.partitions]
        seq = SEQUENCE + start if source == REPLAYS else start
        for first, payloads in pieces:
            for _ in stage.run(first, payloads):
                yield from self._taken(seq, carrier)

    def _taken(self, seq: int, carrier: int) -> Iterator[Chunk]:
        """Return what the steps have put out."""
        chunks = self._outbox.take(seq, carrier)
        if self._spool is None:
            return chunks
        put = self._spool.put
        return (chunk if self.plan.level_of(chunk.route) is not None else put(chunk) for chunk in chunks)

    def _source(self, name: str) -> SourceLine:
        if name not in self._sources:
            with self._outbox.capturing():
                self._sources[name] = self._line(name, self._outbox)
        return self._sources[name]

    def _line(self, source: str, outbox: Outbox) -> SourceLine:
        if source == REPLAYS:
            return ReplayLine(self.plan, outbox)
        pipeline = next(p for p in self.plan.application.pipelines if p.name == source)
        return PipelineLine(self.plan, outbox, pipeline)

    def _retracing(self, source: str, start: int) -> Retracing:
        """Return the first stage once more over a stretch of a log; many errors in a group cost it once."""
        if (source, start) not in self._retracings:
            log = LogReader(Path(self.plan.logs[source]))
            line = partial(self._line, source)
            watch = self._attempts.again(_range(source)) if self._attempts is not None else None
            self._retracings[source, start] = Retracing(self.plan, line, log, start, watch)
        return self._retracings[source, start]

    def _origin_of_packed(self, source: str, start: int, *which: Any) -> dict[str, Any]:
        """Say where a message came from that failed when it was packed."""
        found = None
        with contextlib.suppress(*USER_ERRORS):  # The log may be out of reach, or user code not do the same again.
            found = self._retracing(source, start).origin_of_packed(*which)
        return found or ({} if source == REPLAYS else {"source": source})

    def _origin_of_arrived(self, chunk: Chunk, *which: Any) -> dict[str, Any]:
        """Say where a message in a chunk for a state came from."""
        route = self.plan.routes[chunk.route]
        assert isinstance(route, StepRoute)
        pipeline = route.pipeline
        found = None
        with contextlib.suppress(*USER_ERRORS):
            if chunk.seq >= SEQUENCE:
                found = self._retracing(REPLAYS, chunk.seq - SEQUENCE).origin_of_arrived(chunk, *which)
            elif self.plan.after(pipeline, 0) is route:
                # Behind another state, `seq` does not say where in the log a chunk began.
                found = self._retracing(pipeline.name, chunk.seq).origin_of_arrived(chunk, *which)
        return found or {"source": pipeline.name}

    def run_group(self, level: int, group: int, chunks: Iterable[Chunk], store: BucketStore) -> Iterator[Chunk]:
        """Run a stage with state for one group: chunks for this level through their step, all others passed on."""
        mine: list[Chunk] = []
        for chunk in chunks:
            if self.plan.level_of(chunk.route) == level:
                mine.append(chunk)
                continue
            if chunk.route == NUDGE:
                self._prepare_level(level)
            if chunk.route != NUDGE or level + 1 < len(self.plan.layout.levels):
                yield chunk
        if mine:
            mine.sort(key=lambda chunk: chunk.order)
            place = ("bucket", level, group)
            yield from self._attempted(lambda worker: worker.run_bucket(group, mine, store), place, mine[0].order)

    def run_bucket(self, group: int, mine: list[Chunk], store: BucketStore) -> Iterator[Chunk]:
        """Run chunks for a bucket, in their order."""
        self._outbox.clear()
        route = self.plan.routes[mine[0].route]
        assert isinstance(route, StepRoute)
        name = (group, route.step.state.name)
        # Taken out while it is being changed: if this task dies half-way, nobody must find it here.
        _, live = self._live.pop(name, (0.0, None))
        run = BucketRun(self._log, store, self._log.open(store, live))
        self._outbox.origin_of_packed = self._origin_of_output
        carrier = self.plan.layout.carriers[spark_hash(group) % self.plan.layout.partitions]
        for chunk in mine:
            with self._outbox.capturing():
                self._run_chunk(run, chunk)
            if self._outbox.is_full:
                yield from self._taken(group, carrier)
        with self._outbox.capturing():
            run.save()
        self._live[name] = (time.monotonic(), run.bucket)
        yield from self._taken(group, carrier)

    def _run_chunk(self, run: BucketRun, chunk: Chunk) -> None:
        step = self._step(chunk.route)
        try:
            messages = self._serializer.load_messages(chunk.body)
        except USER_ERRORS as cause:
            # The sender tries each class of message before it relies on it, so this is rare; it is kept as it is.
            error = NotPicklableError(f"{chunk.number} messages that were packed together cannot be read: {cause}")
            route = self.plan.routes[chunk.route]
            self._outbox.origin = lambda: {"source": route.pipeline.name}
            self._outbox.fail(step.place, chunk.body, error, None, encoding=PACKED)
        else:
            run.run(step, messages, ArrivedChunk(chunk, messages, self._serializer, self._origin_of_arrived))

    def _origin_of_output(self, route: int, *_: Any) -> dict[str, Any]:
        """Say where an output of a state came from that cannot be sent to the next one."""
        return {"source": self.plan.routes[route].pipeline.name}

    def prepare_sources(self) -> None:
        """Bind the first stage of every pipeline, so that what cannot be made is found before the first message."""
        for pipeline in self.plan.application.pipelines:
            with _told(pipeline.name, "its source or a step before its first state"):
                self._source(pipeline.name)

    def _prepare_level(self, level: int) -> None:
        for route in self.plan.routes:
            if isinstance(route, StepRoute) and route.layout.level == level:
                with _told(route.pipeline.name, f"the step {route.step.name!r} or one after it"):
                    self._step(route.number)

    def _step(self, number: int) -> StateStep:
        if number not in self._steps:
            route = self.plan.routes[number]
            assert isinstance(route, StepRoute)
            self._steps[number] = StateStep(self.plan, route, self._outbox)
        return self._steps[number]

    def live_states(self, name: str) -> dict[Any, Any]:
        """Return the live objects of the state `name` that are here, by key."""
        buckets = [bucket for (_, state), (_, bucket) in self._live.items() if state == name]
        return {key: state for bucket in buckets for key, state in bucket.objects.items()}

    def end_of_task(self) -> None:
        """Tidy up after a task; buckets that have not been used for long live elsewhere now."""
        self._retracings.clear()
        if self._spool is not None:
            self._spool.close()
        horizon = time.monotonic() - _FORGET_AFTER_SECONDS
        while self._live and next(iter(self._live.values()))[0] < horizon:
            self._live.popitem(last=False)
        self._housekeeping.after_task()


def _range(source: str) -> tuple[str, str]:
    """Return what the first stage of a source is called in notes."""
    return ("range", source)


@contextlib.contextmanager
def _told(pipeline: str, part: str) -> Iterator[None]:
    """Turn what a constructor of the user's raises in a worker into a plain error."""
    try:
        yield
    except USER_ERRORS as error:
        raise WallarooError(f"Pipeline {pipeline!r}: {part} cannot be made in a worker: {error!r}") from error


class _Housekeeping:
    """Keeps the garbage collector off the live state.

    Spark's worker runs a full collection after every task, which would visit every live object. Frozen objects
    are skipped. Garbage in cycles that were frozen alive is collected now and then, so seldom that it costs
    next to nothing.
    """

    def __init__(self) -> None:
        self._next_collection = time.monotonic() + 10.0

    def after_task(self) -> None:
        """Freeze what is alive; when its time has come, look for garbage among it first."""
        started = time.monotonic()
        if started >= self._next_collection:
            gc.unfreeze()
            gc.collect()
            took = time.monotonic() - started
            self._next_collection = started + max(10.0, 200 * took)
        gc.freeze()


@lru_cache(maxsize=1)
def worker_for(ref: PlanRef) -> Worker:
    """Return this process's worker for a plan."""
    catch_streams()
    # Messages come and go by the ten thousand; Python's own setting looks for garbage after every 700.
    gc.set_threshold(50_000, 20, 20)
    plan = ref.load()
    return Worker(plan, attempts=Attempts(plan.notes, running_now) if plan.notes else None)
