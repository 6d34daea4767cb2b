"""Runs state computations on the live objects of a bucket; an error leaves no trace in the state.

The common case is a loop without any bookkeeping. When a computation raises, its state may be half changed: the
state of that key is then made again, from what was committed and from the messages of this block that had
succeeded. From there on, for the rest of the block, the key is *guarded*: a copy is kept, so that a further
error is cheap to undo.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from operator import length_hint
from typing import Any, NamedTuple, Protocol

from wallaroo.class_changes import explain_missing_attribute
from wallaroo.engine.plan import Plan, StepRoute
from wallaroo.engine.stages.live_state import Bucket, BucketStore, StateLog
from wallaroo.engine.stages.outbox import USER_ERRORS, NotPicklableError, Outbox
from wallaroo.engine.stages.steps import (
    ReturnShapeError,
    checked_list,
    checked_pair,
    checked_save,
    line_after,
    state_loop,
)
from wallaroo.engine.transport.dead_letter_record import Place
from wallaroo.topology.model import StateComputation

_JOINED_AT_ONCE = 2000

Compute = Callable[[Any, Any], Any]


class StateStep:
    """A state computation with the way its outputs take from there; made once in a worker process."""

    def __init__(self, plan: Plan, route: StepRoute, outbox: Outbox) -> None:
        self.step: StateComputation = route.step
        self.place = Place.of_step(route.pipeline, route.index)
        self.compute: Compute = route.step.bind()
        """The computation itself, for what it has done before; `attempt` is the same for messages whose turn comes."""
        self.attempt: Compute = outbox.watched(self.compute, self.place.label)
        self.listed = route.step.state.keys
        """The keys that the application has listed, if it has; others may come all the same."""
        self.make = route.step.state.make()
        self.make_first = outbox.watched(self.make, f"state of {self.place.label}")
        self.run = state_loop(plan, outbox, route)
        self.onward = line_after(plan, outbox, route.pipeline, route.index)
        self.outbox = outbox


class Arrived(Protocol):
    """A chunk as it arrived: asked only when one of its messages fails, or may be fatal."""

    @property
    def name(self) -> tuple[int, ...]:
        """Return what tells the chunk from all others: one with other messages, computed anew, is another chunk."""

    def message(self, key: Any, index: int) -> Any:
        """Return a message as it was before any user code had it."""

    def origin(self, key: Any, index: int) -> dict[str, Any]:
        """Say where a message came from."""


class Work(NamedTuple):
    """Messages for a bucket that have gone through a step without a failure."""

    step: StateStep
    messages: dict[Any, list[Any]]
    arrived: Arrived


class BucketRun:
    """The messages for one bucket, from when its states were saved to when they are saved again.

    To make a key's state again after an error, those before it are needed once more. While there is no error nothing is
    kept for that; `earlier` gives what there was up to the first one. Without it, messages are kept as they come.
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
        """The keys that have had messages; some may have no state, where making it failed."""
        self._done: list[_Work] | None = None if earlier else []
        """The chunks so far, where they are kept: from what succeeded of them a key's state can be made again."""
        self._guards: dict[Any, _Guard] = {}
        self._committed: dict[Any, Any] | None = None

    def run(self, step: StateStep, messages: dict[Any, list[Any]], arrived: Arrived | None = None) -> None:
        """Run the messages of a chunk, key by key, each in order."""
        work = _Work(step, messages, arrived or _AsItIs(messages))
        objects = self.bucket.objects
        run = step.run
        outbox = step.outbox
        current = outbox.current
        current.origin = work.origin_at_hand
        current.number = work.at_hand
        since_joined = 0
        for key, of_key in messages.items():
            current.key = work.key = key
            if key in self._guards:
                self._run_guarded(work, key, 0)
                continue
            state = objects.get(key)
            if state is None and (state := self._fresh(work, key)) is None:
                continue
            remaining = work.remaining = iter(of_key)
            save_any, error = run(remaining, state)
            if error is not None:
                self._recover(work, key, len(of_key) - length_hint(remaining) - 1, error)
            if save_any:
                self._saved.add(key)
            since_joined += len(of_key)
            if since_joined > _JOINED_AT_ONCE:
                outbox.join_encoded()
                since_joined = 0
        self._touched.update(messages)
        if self._done is not None:
            self._done.append(work)

    def _kept(self) -> list[_Work]:
        """Return the chunks before the one at hand, and keep those that come from now on."""
        if self._done is None:
            assert self._earlier is not None
            self._done = [_Work(*work) for work in self._earlier()]
        return self._done

    def _fresh(self, work: _Work, key: Any) -> Any:
        """Return a new state object for `key`, None if making it failed (then the messages have failed)."""
        step = work.step
        try:
            state = step.make_first()
            if state is None:
                raise ValueError(f"making a state for {step.step.state.name!r} gave None")
        except USER_ERRORS as error:
            self._kept()
            for index in range(len(work.messages[key])):
                work.fail(key, index, error)
            return None
        if step.listed is not None and key not in step.listed:
            step.outbox.made_unlisted(step.step.state.name, key)
        self.bucket.objects[key] = state
        return state

    def _recover(self, work: _Work, key: Any, index: int, error: BaseException) -> None:
        """Undo what the failing message did and go on after it under guard."""
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

    def _run_guarded(self, work: _Work, key: Any, start: int) -> None:
        """Run the messages of a key from the `start`-th on."""
        guard = self._guards[key]
        objects = self.bucket.objects
        step = work.step
        remaining = work.remaining = iter(work.messages[key][start:])
        for index, message in enumerate(remaining, start):
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
        """Make what was computed durable. A state that cannot be serialised fails with the messages that led to it."""
        touched = self._touched & self.bucket.objects.keys()
        try:
            packed = self._log.pack(self.bucket, self._store, self._saved & touched, touched)
        except Exception:  # noqa: BLE001 - user code; the states at fault are found one by one
            touched -= self._drop_unserialisable(touched)
            packed = self._log.pack(self.bucket, self._store, self._saved & touched, touched)
        # Where this fails it is the disk, whatever user code may raise.
        self._log.write(self.bucket, self._store, packed)

    def _drop_unserialisable(self, touched: set[Any]) -> set[Any]:
        before = self._log.open(self._store, None)
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
        # Chunk by chunk, as their messages came: so it is quick to find out where from.
        for work in self._kept():
            for key, error in bad.items():
                for index in work.succeeded(key):
                    work.fail(key, index, error)
        return bad.keys() & touched


class _Work:
    """A chunk on its way through a step, with what became of its messages."""

    def __init__(self, step: StateStep, messages: dict[Any, list[Any]], arrived: Arrived) -> None:
        self.step = step
        self.messages = messages
        self.arrived = arrived
        self.key: Any = None
        """The key at hand; its messages may have got another one on their way from here."""
        self.remaining: Iterator[Any] = iter(())
        """The messages of that key that have not had their turn."""
        self._failed: dict[Any, set[int]] = {}

    def succeeded(self, key: Any) -> list[int]:
        """Return which messages of a key have not failed."""
        failed = self._failed.get(key, ())
        return [index for index in range(len(self.messages.get(key, ()))) if index not in failed]

    def fail(self, key: Any, index: int, error: BaseException) -> None:
        """Make a message of this chunk a dead letter."""
        self._failed.setdefault(key, set()).add(index)
        origin = partial(self.arrived.origin, key, index)
        self.step.outbox.fail(self.step.place, self.arrived.message(key, index), error, key, origin=origin)

    def origin_at_hand(self) -> dict[str, Any]:
        """Say where the message came from whose output is on its way."""
        return self.arrived.origin(self.key, self._index_at_hand())

    def at_hand(self) -> tuple[int, ...]:
        """Return the place of the message at hand: the same whenever the chunk is run."""
        return (*self.arrived.name, self._numbers[self.key], self._index_at_hand())

    def _index_at_hand(self) -> int:
        return len(self.messages[self.key]) - length_hint(self.remaining) - 1

    @cached_property
    def _numbers(self) -> dict[Any, int]:
        return {key: number for number, key in enumerate(self.messages)}


class _AsItIs:
    """A chunk of which nothing is known but its messages."""

    name = ()

    def __init__(self, messages: dict[Any, list[Any]]) -> None:
        self._messages = messages

    def message(self, key: Any, index: int) -> Any:
        return self._messages[key][index]

    def origin(self, _key: Any, _index: int) -> dict[str, Any]:
        return {}


class _Guard:
    """Makes the state of one key again: a copy of it, and the messages that have succeeded since."""

    def __init__(self, log: StateLog, committed: Any) -> None:
        self._log = log
        self._copy: bytes | None = None if committed is None else log.copy_out(committed)
        self.succeeded: list[tuple[StateStep, Any]] = []

    def restore(self, step: StateStep) -> Any:
        """Return the state as it was before the message that failed."""
        state = step.make() if self._copy is None else self._log.copy_in(self._copy)
        for earlier, message in self.succeeded:
            with contextlib.suppress(Exception):  # It succeeded before; one that now fails has had its turn.
                earlier.compute(message, state)
        with contextlib.suppress(Exception):  # Without a copy the messages are simply run again next time.
            self._copy = self._log.copy_out(state)
            self.succeeded.clear()
        return state


def _shaped(error: BaseException, step: StateStep) -> BaseException:
    """Return `error`, or a clearer one where the computation did not raise but returned the wrong shape."""
    trace = error.__traceback__
    if trace is None or trace.tb_next is not None or not isinstance(error, TypeError | ValueError):
        return error
    kind = "(list of outputs, save_state)" if step.step.multi else "(output, save_state)"
    return ReturnShapeError(f"expected a tuple {kind}: {error}")
