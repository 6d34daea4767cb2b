"""Runs carefully what a process has died at: each call of user code is noted before it is made.

A call at which processes keep dying is not made any more. It raises an error instead, so that its message becomes a
dead letter where it is, like any other that fails.
"""

from __future__ import annotations

import faulthandler
from collections import Counter
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from wallaroo.engine.transport.notes import Attempt, Deaths, NoteWriter, Task, blame_before, call_name

Function = TypeVar("Function", bound=Callable[..., Any])

_NO_WORDS = "it was killed, by somebody or, for lack of memory, by the system, or has ended itself"


class Running(NamedTuple):
    """What a process does now."""

    batch: Any
    attempt: Attempt


class WorkerDiedError(Exception):
    """Processes that ran this step for this message have died."""


class Watch:
    """Stands in front of every call of user code in one task."""

    def __init__(self, fatal: dict[str, str], note: NoteWriter | None = None) -> None:
        self._fatal = fatal
        self._note = note
        self._last: Any = None
        self._calls: Counter[str] = Counter()
        self.message: Callable[[], Any] = object
        """Says which message is at hand; set by whoever feeds the steps."""

    def over(self, function: Function, label: str) -> Function:
        """Return a function that does the same, with a note of it while it lasts."""
        note = self._note

        def watched(*arguments: Any) -> Any:
            call = self._next_call(label)
            if call in self._fatal:
                words = self._fatal[call] or _NO_WORDS
                raise WorkerDiedError(f"the process that ran it died, twice: {words}")
            if note is None:
                return function(*arguments)
            note.call(call)
            try:
                return function(*arguments)
            finally:
                note.no_call()

        return watched  # type: ignore[return-value] # which takes and returns what the function does

    def _next_call(self, label: str) -> str:
        """Return the name of a call: the step, the message, and the how-manieth call of the step for it that it is."""
        message = self.message()
        if message != self._last:
            self._last = message
            self._calls.clear()
        self._calls[label] += 1
        return call_name(label, f"{message} {self._calls[label]}")


class Attempts:
    """The tasks of this process, noted one by one."""

    def __init__(self, folder: str, running: Callable[[], Running]) -> None:
        self._folder = Path(folder)
        self._running = running
        self._known: tuple[Attempt, Deaths] | None = None
        self._traced = False

    @cached_property
    def _note(self) -> NoteWriter:
        return NoteWriter(self._folder)

    def begin(self, place: tuple[Any, ...], first: Any) -> Watch | None:
        """Note what is about to run: at which place, and from where on; return a watch if it is to be run carefully."""
        batch, attempt = self._running()
        # Behind a state, the order of the input begins anew with each batch.
        task = Task(place, (batch, first))
        self._note.begin(task, attempt)
        deaths = self._deaths()
        if not deaths.at(task):
            return None
        if not faulthandler.is_enabled() and (file := self._note.file_for_trace()) is not None:
            faulthandler.enable(file)
            self._traced = True
        return Watch(deaths.calls(task), self._note)

    def end(self) -> None:
        """Note that the task is done."""
        self._note.end()
        if self._traced:
            faulthandler.disable()
            self._traced = False

    def again(self, place: tuple[Any, ...]) -> Watch | None:
        """Return a watch for the first stage of a source, run once more to look something up, without what is fatal.

        Calls have the positions of their messages, so it does not matter which task has found them.
        """
        fatal = self._deaths().calls_at(place)
        return Watch(fatal) if fatal else None

    def _deaths(self) -> Deaths:
        """Look once in each attempt at a task of Spark's: a death that concerns it makes another attempt."""
        _, attempt = self._running()
        if self._known is None or self._known[0] != attempt:
            blame_before(self._folder, attempt)
            self._known = attempt, Deaths(self._folder)
        return self._known[1]


def running_now() -> Running:
    """Return which batch this process works for, and which attempt at which of Spark's tasks it is."""
    from pyspark import TaskContext  # noqa: PLC0415 - not where there is no Spark

    context = TaskContext.get()
    assert context is not None
    attempt = Attempt(context.stageId(), context.partitionId(), context.attemptNumber())
    return Running(context.getLocalProperty("streaming.sql.batchId"), attempt)
