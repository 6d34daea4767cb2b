"""Runs the blocks of a task, records which one is running, and guards blocks on which a process has died."""

from __future__ import annotations

import faulthandler
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from wallaroo.engine.stages.current_message import CurrentMessage
from wallaroo.engine.transport.crash_notes import Care, WorkerNote, call_name

if TYPE_CHECKING:
    from wallaroo.engine.stages.worker import Worker


Result = TypeVar("Result")


@lru_cache(maxsize=1)
def note_in(folder: str) -> WorkerNote:
    """Return the note of this process; without a folder it records nothing."""
    return WorkerNote(Path(folder) if folder else None)


class GuardedTask:
    """A task that takes earlier deaths of worker processes into account."""

    def __init__(self, worker: Worker, note: WorkerNote, care: Care) -> None:
        self._worker = worker
        self._note = note
        self._care = care
        worker.begin_task(care.first_calls)

    def run(self, block: int, compute: Callable[[], Result]) -> Result:
        """Compute a block; under guard if a process has died on it."""
        self._note.begin(block)
        if block not in self._care.blocks:
            return compute()
        watch = CallGuard(self._care.calls.get(block, {}), self._note)
        with self._last_words(), self._worker.watched(watch):
            return compute()

    @contextmanager
    def _last_words(self) -> Iterator[None]:
        """Have `faulthandler` write a trace if the process dies, unless it is already enabled."""
        file = None if faulthandler.is_enabled() else self._note.file_for_trace()
        if file is None:
            yield
            return
        faulthandler.enable(file)
        try:
            yield
        finally:
            faulthandler.disable()


Function = TypeVar("Function", bound=Callable[..., Any])

_NO_WORDS = "it was killed by a user, or by the system for lack of memory, or has ended itself"


class CallNote(Protocol):
    """Records which call of user code a process is running."""

    def call(self, text: str) -> None:
        """Record the call that is about to be made."""

    def no_call(self) -> None:
        """Record that the call has returned."""


class WorkerDiedError(Exception):
    """Processes that ran this step for this message died."""


class CallGuard:
    """Wraps every call of user code for the duration of a task or a block."""

    def __init__(self, fatal: Mapping[str, str], note: CallNote | None = None) -> None:
        self._fatal = fatal
        self._note = note
        self._last: Any = None
        self._calls: Counter[str] = Counter()

    def over(self, function: Function, label: str, current: CurrentMessage) -> Function:
        """Return `function` wrapped to record each call for the current message and to refuse calls known as fatal."""
        note = self._note

        def watched(*arguments: Any) -> Any:
            call = self._next_call(label, current)
            if call in self._fatal:
                words = self._fatal[call] or _NO_WORDS
                raise WorkerDiedError(f"the process that ran it died twice: {words}")
            if note is None:
                return function(*arguments)
            note.call(call)
            try:
                return function(*arguments)
            finally:
                note.no_call()

        return watched  # type: ignore[return-value] # same signature as the function

    def _next_call(self, label: str, current: CurrentMessage) -> str:
        """Return the name of a call: the step, the message, and which of the step's calls for that message it is."""
        message = f"{current.lane} {current.number()}" if current.lane else current.number()
        if message != self._last:
            self._last = message
            self._calls.clear()
        self._calls[label] += 1
        return call_name(label, f"{message} {self._calls[label]}")
