"""Runs state computations on the live objects of a bucket; an error leaves no trace in the state.

The common case is a loop without any bookkeeping. When a computation raises, its state may be half changed: the
state of that key is then made again, from what was committed and from the messages of this batch that had
succeeded. From there on, for the rest of the batch, the key is *guarded*: a copy is kept, so that a further
error is cheap to undo.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from operator import length_hint
from typing import Any

from wallaroo.engine.outbox import USER_ERRORS, NotPicklableError, Outbox
from wallaroo.engine.plan import StepRoute
from wallaroo.engine.state import Bucket, BucketStore, StateLog
from wallaroo.engine.steps import Push, ReturnShapeError, checked_list, checked_pair
from wallaroo.topology.model import StateComputation

Compute = Callable[[Any, Any], Any]


class StateStep:
    """A state computation with the way its outputs take from there; made once in a worker process."""

    def __init__(self, route: StepRoute, onward: Push, outbox: Outbox) -> None:
        self.step: StateComputation = route.step
        self.pipeline = route.pipeline.name
        self.compute: Compute = route.step.bind()
        self.make = route.step.state.make()
        self.onward = _each(onward) if route.step.multi else onward
        self.outbox = outbox

    def fail(self, message: Any, error: BaseException, key: Any) -> None:
        """Hand a message that could not be computed to the outbox."""
        self.outbox.fail(self.pipeline, self.step.name, message, error, key)


def _each(onward: Push) -> Push:
    def push(results: Any) -> None:
        for result in results if type(results) is list else checked_list(results):
            if result is not None:
                onward(result)

    return push


class BucketRun:
    """One batch of messages for one bucket."""

    def __init__(self, log: StateLog, store: BucketStore, bucket: Bucket) -> None:
        self.bucket = bucket
        self._log = log
        self._store = store
        self._saved: set[Any] = set()
        self._touched: set[Any] = set()
        self._done: list[tuple[StateStep, dict[Any, list[Any]]]] = []
        """The messages of this batch that succeeded so far: from them a key's state can be made again."""
        self._guards: dict[Any, _Guard] = {}
        self._committed: dict[Any, Any] | None = None

    def run(self, step: StateStep, messages: dict[Any, list[Any]]) -> None:
        """Run the messages of a chunk, key by key, each in order."""
        objects = self.bucket.objects
        compute = step.compute
        onward = step.onward
        succeeded: dict[Any, list[Any]] = {}
        outbox = step.outbox
        for key, of_key in messages.items():
            outbox.key = key
            if key in self._guards:
                succeeded[key] = self._run_guarded(step, key, of_key)
                continue
            state = objects.get(key)
            if state is None and (state := self._fresh(step, key, of_key)) is None:
                continue
            save_any = False
            remaining = iter(of_key)
            try:
                for message in remaining:
                    result = compute(message, state)
                    # Text of two characters could be unpacked as well.
                    output, save = result if type(result) is tuple else checked_pair(result)
                    if output is not None:
                        onward(output)
                    if save:
                        save_any = True
            except USER_ERRORS as error:
                position = len(of_key) - length_hint(remaining) - 1
                succeeded[key] = self._recover(step, key, of_key, position, error)
            if save_any:
                self._saved.add(key)
        made = {key: succeeded.get(key, of_key) for key, of_key in messages.items() if key in objects}
        self._touched.update(made)
        self._done.append((step, made))

    def _fresh(self, step: StateStep, key: Any, messages: list[Any]) -> Any:
        """Return a new state object for `key`, None if making it failed (then the messages have failed)."""
        try:
            state = step.make()
            if state is None:
                raise ValueError(f"making a state for {step.step.state.name!r} gave None")
        except USER_ERRORS as error:
            for message in messages:
                step.fail(message, error, key)
            return None
        self.bucket.objects[key] = state
        return state

    def _recover(
        self, step: StateStep, key: Any, messages: list[Any], position: int, error: BaseException
    ) -> list[Any]:
        """Undo what the failing message did and go on after it under guard; return the messages that succeeded."""
        if self._committed is None:
            self._committed = self._log.committed(self._store)
        guard = self._guards[key] = _Guard(self._log, self._committed.pop(key, None))
        for earlier, chunk in self._done:
            guard.succeeded.extend((earlier, message) for message in chunk.get(key, ()))
        guard.succeeded.extend((step, message) for message in messages[:position])
        step.fail(messages[position], _shaped(error, step), key)
        self.bucket.objects[key] = guard.restore(step)
        return messages[:position] + self._run_guarded(step, key, messages[position + 1 :])

    def _run_guarded(self, step: StateStep, key: Any, messages: list[Any]) -> list[Any]:
        guard = self._guards[key]
        objects = self.bucket.objects
        succeeded = []
        for message in messages:
            try:
                output, save = checked_pair(step.compute(message, objects[key]))
                if step.step.multi:
                    output = checked_list(output)
            except USER_ERRORS as error:
                step.fail(message, error, key)
                objects[key] = guard.restore(step)
                continue
            guard.succeeded.append((step, message))
            succeeded.append(message)
            if save:
                self._saved.add(key)
            if output is not None:
                step.onward(output)
        return succeeded

    def save(self) -> None:
        """Make what was computed durable. A state that cannot be serialised fails with the messages that led to it."""
        touched = self._touched & self.bucket.objects.keys()
        try:
            self._log.save(self.bucket, self._store, self._saved & touched, touched)
        except Exception:  # noqa: BLE001 - user code; the states at fault are found one by one
            touched -= self._drop_unserialisable(touched)
            self._log.save(self.bucket, self._store, self._saved & touched, touched)

    def _drop_unserialisable(self, touched: set[Any]) -> set[Any]:
        before = self._log.open(self._store, None)
        bad = set()
        for key in touched:
            try:
                self._log.check(key, self.bucket.objects[key])
            except Exception as cause:  # noqa: BLE001 - user code
                error = NotPicklableError(f"the state of {key!r} cannot be saved: {cause}")
                bad.add(key)
                for step, chunk in self._done:
                    for message in chunk.get(key, ()):
                        step.fail(message, error, key)
                self.bucket.unsaved.discard(key)
                self.bucket.objects.pop(key)
                if key in before.objects:
                    self.bucket.objects[key] = before.objects[key]
                if key in before.unsaved:
                    self.bucket.unsaved.add(key)
        return bad


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
