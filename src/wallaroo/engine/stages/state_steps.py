"""Runs state computations on the live objects of a bucket; a failing message leaves the state unchanged.

The common case is a loop without any bookkeeping. When a computation raises, its state may be partly changed: the state
of that key is then rebuilt from the committed state and the messages of this block that succeeded. For the rest of the
block the key is *guarded*: a copy is kept, so that a further error is cheap to undo.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from itertools import islice
from operator import length_hint
from typing import Any, NamedTuple, Protocol

from wallaroo.class_changes import explain_missing_attribute
from wallaroo.engine.plan import Plan, StepRoute
from wallaroo.engine.stages.live_state import Bucket, BucketStore, StateLog
from wallaroo.engine.stages.outbox import USER_ERRORS, NotPicklableError, Outbox
from wallaroo.engine.stages.result_checks import ReturnShapeError, checked_list, checked_pair, checked_save
from wallaroo.engine.stages.steps import line_after, state_loop
from wallaroo.engine.transport.dead_letter_record import Place
from wallaroo.engine.transport.packing import Stream
from wallaroo.inlined_lines import is_users
from wallaroo.topology.model import StateComputation

_JOINED_AT_ONCE = 2000

Compute = Callable[[Any, Any], Any]


class CutOffError(MemoryError):
    """Not user code but making a message failed, for example for lack of memory, and others cannot be made after it.

    The task fails, so that the block is computed again.
    """


class StateStep:
    """A state computation with the steps its outputs go to; created once per worker process."""

    def __init__(self, plan: Plan, route: StepRoute, outbox: Outbox) -> None:
        self.step: StateComputation = route.step
        self.place = Place.of_step(route.pipeline, route.index)
        self.compute: Compute = route.step.bind()
        """The unguarded computation, to rerun messages that succeeded before; `attempt` is for first runs."""
        self.attempt: Compute = outbox.watched(self.compute, self.place.label)
        self.listed = route.step.state.keys
        """The keys the application listed, if any; other keys are still possible."""
        self.make = route.step.state.make()
        self.make_first = outbox.watched(self.make, f"state of {self.place.label}")
        self.run = state_loop(plan, outbox, route)
        self.onward = line_after(plan, outbox, route.pipeline, route.index)
        self.outbox = outbox


class Arrived(Protocol):
    """A chunk as it arrived, used only when one of its messages fails or may be fatal."""

    @property
    def name(self) -> tuple[int, ...]:
        """Return what identifies the chunk: a recomputed chunk with different messages is a different chunk."""

    def message(self, key: Any, index: int) -> Any:
        """Return a message as it was before any user code could change it."""

    def origin(self, key: Any, index: int) -> dict[str, Any]:
        """Return where a message came from."""


class Work(NamedTuple):
    """Messages for a bucket that went through a step without a failure."""

    step: StateStep
    counts: dict[Any, int]
    arrived: Arrived


class BucketRun:
    """Runs the messages for one bucket between two saves of its states.

    Rebuilding a key's state after an error needs the earlier messages again. Until the first error nothing is kept for
    that; `earlier` then returns the messages up to it. Without `earlier`, messages are kept as they arrive.
    """

    def __init__(
        self, log: StateLog, store: BucketStore, bucket: Bucket, earlier: Callable[[], Iterable[Work]] | None = None
    ) -> None:
        self.bucket = bucket
        self._log = log
        self._store = store
        self._earlier = earlier
        self._saved: set[Any] = set()
        self._touched: set[Any] = set()
        """The keys that have had messages; some have no state because creating it failed."""
        self._done: list[_Work] | None = None if earlier else []
        """The chunks so far, if they are kept: a key's state can be rebuilt from their messages that succeeded."""
        self._guards: dict[Any, _Guard] = {}
        self._committed: dict[Any, Any] | None = None

    def run(self, step: StateStep, counts: dict[Any, int], arrived: Arrived, messages: Stream) -> None:
        """Run the messages of a chunk, key by key, each in order.

        Args:
            step: The step.
            counts: The keys, and how many messages each has.
            arrived: The chunk they came in.
            messages: The messages of these keys, and maybe of others behind them.
        """
        work = _Work(step, counts, arrived, messages)
        objects = self.bucket.objects
        run = step.run
        outbox = step.outbox
        current = outbox.current
        current.begin(work.origin_at_hand, work.at_hand)
        since_joined = 0
        ready, at = messages.ready, messages.at
        for key, count in counts.items():
            current.key = work.key = key
            if ready is None:
                work.remaining = islice(messages.made, count)
                work.behind -= count
            else:
                work.remaining = work.counter = iter(ready[at : at + count])
                at += count
            if key in self._guards:
                self._run_guarded(work, key, 0)
                continue
            state = objects.get(key)
            if state is None and (state := self._fresh(work, key)) is None:
                continue
            save_any, error = run(work.remaining, state)
            if error is not None:
                self._recover(work, key, work.index_at_hand(), error)
            if save_any:
                self._saved.add(key)
            since_joined += count
            if since_joined > _JOINED_AT_ONCE:
                outbox.join_encoded()
                since_joined = 0
        if work.is_cut_off:
            raise CutOffError("messages behind one that could not be made are missing")
        messages.at = at
        self._touched.update(counts)
        if self._done is not None:
            self._done.append(work)

    def _kept(self) -> list[_Work]:
        """Return the chunks before the current one, and keep later ones from now on."""
        if self._done is None:
            assert self._earlier is not None
            self._done = [_Work(*work) for work in self._earlier()]
        return self._done

    def _fresh(self, work: _Work, key: Any) -> Any:
        """Return a new state object for `key`, or None if creating it failed (then its messages have failed)."""
        step = work.step
        try:
            state = step.make_first()
            if state is None:
                raise ValueError(f"making a state for {step.step.state.name!r} gave None")
        except USER_ERRORS as error:
            self._kept()
            for index, _ in enumerate(work.remaining):
                work.fail(key, index, error)
            return None
        if step.listed is not None and key not in step.listed:
            step.outbox.made_unlisted(step.step.state.name, key)
        self.bucket.objects[key] = state
        return state

    def _recover(self, work: _Work, key: Any, index: int, error: BaseException) -> None:
        """Undo the effects of the failing message and continue with the next one under guard."""
        if self._committed is None:
            self._committed = self._log.committed(self._store)
        guard = self._guards[key] = _Guard(self._log, self._committed.pop(key, None))
        for earlier in self._kept():
            guard.succeeded.extend((earlier.step, earlier.arrived.message(key, at)) for at in earlier.succeeded(key))
        guard.succeeded.extend((work.step, work.arrived.message(key, at)) for at in range(index))
        explain_missing_attribute(error, work.step.make)
        work.fail(key, index, _shaped(error, work.step))
        self.bucket.objects[key] = guard.restore(work.step)
        self._run_guarded(work, key, index + 1)
        if work.is_cut_off:
            raise CutOffError(f"the messages behind one for {key!r} could not be made") from error

    def _run_guarded(self, work: _Work, key: Any, start: int) -> None:
        """Run the remaining messages of a key, of which the first is the `start`-th."""
        guard = self._guards[key]
        objects = self.bucket.objects
        step = work.step
        for index, message in enumerate(work.remaining, start):
            try:
                output, save = checked_pair(step.attempt(message, objects[key]))
                save = checked_save(save)
                outputs = checked_list(output) if step.step.multi else [output]
                step.outbox.fanout_budget -= len(outputs) if step.step.multi else 0
            except USER_ERRORS as error:
                explain_missing_attribute(error, step.make)
                work.fail(key, index, error)
                objects[key] = guard.restore(step)
                continue
            guard.succeeded.append((step, work.arrived.message(key, index)))
            if save:
                self._saved.add(key)
            step.onward(each for each in outputs if each is not None)

    def save(self) -> None:
        """Make the computed states durable. If a state cannot be serialized, the messages that changed it fail."""
        touched = self._touched & self.bucket.objects.keys()
        try:
            packed = self._log.pack(self.bucket, self._store, self._saved & touched, touched)
        except Exception:  # noqa: BLE001 - user code; the states at fault are found one by one
            touched -= self._drop_unserialisable(touched)
            packed = self._log.pack(self.bucket, self._store, self._saved & touched, touched)
        # An error here comes from the disk; user code has already run.
        self._log.write(self.bucket, self._store, packed)

    def _drop_unserialisable(self, touched: set[Any]) -> set[Any]:
        before = self._log.open(self._store)
        bad: dict[Any, NotPicklableError] = {}
        for key in touched:
            try:
                self._log.check(key, self.bucket.objects[key])
            except Exception as cause:  # noqa: BLE001 - user code
                bad[key] = NotPicklableError(f"the state of {key!r} cannot be saved: {cause}")
                self.bucket.unsaved.discard(key)
                self.bucket.objects.pop(key)
                if key in before.objects:
                    self.bucket.objects[key] = before.objects[key]
                if key in before.unsaved:
                    self.bucket.unsaved.add(key)
        # Chunk by chunk, in order of arrival: that makes their origins quick to find.
        for work in self._kept():
            for key, error in bad.items():
                for index in work.succeeded(key):
                    work.fail(key, index, error)
        return bad.keys() & touched


class _Work:
    """A chunk being run through a step, with the outcome of its messages."""

    def __init__(
        self, step: StateStep, counts: dict[Any, int], arrived: Arrived, messages: Stream | None = None
    ) -> None:
        self.step = step
        self.counts = counts
        self.arrived = arrived
        self.key: Any = None
        """The current key; downstream, its messages may have another one."""
        self.remaining: Iterator[Any] = iter(())
        """The messages of that key that have not been run yet."""
        self.counter: Iterator[Any] = iter(()) if messages is None else messages.counter
        """Has as many items left as there are messages left of that key, and those behind them."""
        self.behind = length_hint(self.counter)
        """How many items of `counter` are for messages behind those of the current key."""
        self._failed: dict[Any, set[int]] = {}

    def succeeded(self, key: Any) -> list[int]:
        """Return the indexes of the messages of a key that have not failed."""
        failed = self._failed.get(key, ())
        return [index for index in range(self.counts.get(key, 0)) if index not in failed]

    def fail(self, key: Any, index: int, error: BaseException) -> None:
        """Record a message of this chunk as a dead letter."""
        self._failed.setdefault(key, set()).add(index)
        origin = partial(self.arrived.origin, key, index)
        self.step.outbox.fail(self.step.place, self.arrived.message(key, index), error, key, origin=origin)

    def origin_at_hand(self) -> dict[str, Any]:
        """Return where the message came from whose output is being processed."""
        return self.arrived.origin(self.key, self.index_at_hand())

    def at_hand(self) -> tuple[int, ...]:
        """Return the position of the current message: the same each time the chunk is run."""
        return (*self.arrived.name, self._numbers[self.key], self.index_at_hand())

    def index_at_hand(self) -> int:
        """Return the index of the current message among those of its key."""
        return self.counts[self.key] - (length_hint(self.counter) - self.behind) - 1

    @property
    def is_cut_off(self) -> bool:
        """Return whether messages of the current key are missing though none remain."""
        return length_hint(self.counter) != self.behind

    @cached_property
    def _numbers(self) -> dict[Any, int]:
        return {key: number for number, key in enumerate(self.counts)}


class _Guard:
    """Rebuilds the state of one key from a copy and the messages that succeeded since."""

    def __init__(self, log: StateLog, committed: Any) -> None:
        self._log = log
        self._copy: bytes | None = None if committed is None else log.copy_out(committed)
        self.succeeded: list[tuple[StateStep, Any]] = []

    def restore(self, step: StateStep) -> Any:
        """Return the state as it was before the failing message."""
        state = step.make() if self._copy is None else self._log.copy_in(self._copy)
        for earlier, message in self.succeeded:
            with contextlib.suppress(Exception):  # It succeeded before; a failure now is ignored.
                earlier.compute(message, state)
        with contextlib.suppress(Exception):  # Without a copy the messages are rerun next time.
            self._copy = self._log.copy_out(state)
            self.succeeded.clear()
        return state


def _shaped(error: BaseException, step: StateStep) -> BaseException:
    """Return `error`, or a clearer one where the computation did not raise but returned the wrong shape."""
    trace = error.__traceback__
    if trace is None or trace.tb_next is not None or is_users(trace) or not isinstance(error, TypeError | ValueError):
        return error
    kind = "(list of outputs, save_state)" if step.step.multi else "(output, save_state)"
    return ReturnShapeError(f"expected a tuple {kind}: {error}")
