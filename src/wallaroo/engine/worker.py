"""What runs inside a worker process: the application, bound once, and the live state of the buckets seen here."""

from __future__ import annotations

import contextlib
import gc
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from wallaroo.engine.buckets import spark_hash
from wallaroo.engine.chunks import NUDGE, Chunk
from wallaroo.engine.outbox import USER_ERRORS, NotPicklableError, Outbox
from wallaroo.engine.plan import Plan, StepRoute
from wallaroo.engine.printing import catch_streams
from wallaroo.engine.shipping import PlanRef
from wallaroo.engine.state import Bucket, BucketStore, StateLog
from wallaroo.engine.stateful import BucketRun, StateStep
from wallaroo.engine.steps import Push, line_from, source_line
from wallaroo.errors import WallarooError

_MESSAGES_IN_A_CHUNK = 250_000
_FORGET_AFTER_SECONDS = 300.0


class Worker:
    """One application in one worker process."""

    def __init__(self, plan: Plan, outbox: Outbox | None = None) -> None:
        self.plan = plan
        self._outbox = outbox or Outbox(plan)
        self._sources: dict[str, Push] = {}
        self._steps: dict[int, StateStep] = {}
        self._log = StateLog(self.plan.serializer, self.plan.run_id)
        self._serializer = self.plan.serializer
        self._live: OrderedDict[tuple[int, str], tuple[float, Bucket]] = OrderedDict()
        self._housekeeping = _Housekeeping()

    def run_source(self, pipeline_name: str, start: int, pieces: Iterable[tuple[int, list[bytes]]]) -> Iterator[Chunk]:
        """Run the first stage: payloads of a source, through its decoder and the steps before the first state."""
        outbox = self._outbox
        outbox.clear()
        push = self._source(pipeline_name)
        carrier = self.plan.layout.carriers[start % self.plan.layout.partitions]
        for first, payloads in pieces:
            remaining = iter(payloads)
            end = first + len(payloads)

            def origin(end: int = end, remaining: Iterator[bytes] = remaining) -> dict[str, object]:
                position = end - remaining.__length_hint__() - 1  # type: ignore[attr-defined]
                return {"source": pipeline_name, "position": position}

            outbox.origin = origin
            with outbox.capturing():
                for payload in remaining:
                    push(payload)
            # What fails when it is packed could be any message of the piece.
            outbox.origin = lambda: {"source": pipeline_name}
            if outbox.messages > _MESSAGES_IN_A_CHUNK:
                yield from outbox.take(start, carrier)
        yield from outbox.take(start, carrier)

    def _source(self, pipeline_name: str) -> Push:
        if pipeline_name not in self._sources:
            pipeline = next(p for p in self.plan.application.pipelines if p.name == pipeline_name)
            with self._outbox.capturing():
                self._sources[pipeline_name] = source_line(self.plan, self._outbox, pipeline)
        return self._sources[pipeline_name]

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
        if not mine:
            return
        self._outbox.clear()
        route = self.plan.routes[mine[0].route]
        assert isinstance(route, StepRoute)
        name = (group, route.step.state.name)
        # Taken out while it is being changed: if this task dies half-way, nobody must find it here.
        _, live = self._live.pop(name, (0.0, None))
        run = BucketRun(self._log, store, self._log.open(store, live))
        with self._outbox.capturing():
            for chunk in sorted(mine, key=lambda chunk: chunk.order):
                self._outbox.origin = dict
                self._run_chunk(run, chunk)
            run.save()
        self._live[name] = (time.monotonic(), run.bucket)
        carrier = self.plan.layout.carriers[spark_hash(group) % self.plan.layout.partitions]
        yield from self._outbox.take(group, carrier)

    def _run_chunk(self, run: BucketRun, chunk: Chunk) -> None:
        step = self._step(chunk.route)
        try:
            messages = self._serializer.load_messages(chunk.body)
        except USER_ERRORS as cause:
            # The sender tries each class of message before it relies on it, so this is rare; it is kept as it is.
            error = NotPicklableError(f"{chunk.number} messages that were packed together cannot be read: {cause}")
            step.fail(chunk.body, error, None)
        else:
            run.run(step, messages)

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
            onward = line_from(self.plan, self._outbox, route.pipeline, route.index + 1)
            self._steps[number] = StateStep(route, onward, self._outbox)
        return self._steps[number]

    def live_states(self, name: str) -> dict[Any, Any]:
        """Return the live objects of the state `name` that are here, by key."""
        buckets = [bucket for (_, state), (_, bucket) in self._live.items() if state == name]
        return {key: state for bucket in buckets for key, state in bucket.objects.items()}

    def end_of_task(self) -> None:
        """Tidy up after a task; buckets that have not been used for long live elsewhere now."""
        horizon = time.monotonic() - _FORGET_AFTER_SECONDS
        while self._live and next(iter(self._live.values()))[0] < horizon:
            self._live.popitem(last=False)
        self._housekeeping.after_task()


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
    return Worker(ref.load())
