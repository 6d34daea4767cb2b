"""Runs carefully what a process has died at: each call of user code is noted before it is made.

A call at which processes keep dying is not made any more. It raises an error instead, so that its message becomes a
dead letter where it is, like any other that fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from wallaroo.engine.transport.worker_notes import call_name

Function = TypeVar("Function", bound=Callable[..., Any])

_NO_WORDS = "it was killed, by somebody or, for lack of memory, by the system, or has ended itself"


class CallNote(Protocol):
    """Where a process writes down which call of user code it is at."""

    def call(self, text: str) -> None:
        """Write down which call is about to be made."""

    def no_call(self) -> None:
        """Write down that the call has come back."""


class WorkerDiedError(Exception):
    """Processes that ran this step for this message have died."""


class Watch:
    """Stands in front of every call of user code, for the time of a task or of a block."""

    def __init__(self, fatal: Mapping[str, str], note: CallNote | None = None) -> None:
        self._fatal = fatal
        self._note = note
        self._last: Any = None
        self._calls: Counter[str] = Counter()
        self.message: Callable[[], Any] = object
        """Says which message is at hand; set by whoever feeds the steps."""
        self.source = ""
        """Where the messages come from, where their numbers do not say it; set by whoever feeds the steps."""

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
        message = f"{self.source} {self.message()}" if self.source else self.message()
        if message != self._last:
            self._last = message
            self._calls.clear()
        self._calls[label] += 1
        return call_name(label, f"{message} {self._calls[label]}")
