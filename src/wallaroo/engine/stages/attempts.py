"""The tasks of a worker process, noted one by one, for the attempts that Spark makes at them."""

from __future__ import annotations

import faulthandler
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from wallaroo.engine.stages.watch import Watch
from wallaroo.engine.transport.notes import Attempt, Deaths, NoteWriter, Task, blame_before


class Running(NamedTuple):
    """What a process does now."""

    batch: Any
    attempt: Attempt


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
