"""Failures that pass: what to wait for, and for how long, before a query that has failed is started again.

A full disk is waited for as long as it takes. Workers that died, or an ingress that did not answer, get a few more
tries. A message that kills its worker again and again is found meanwhile, and left out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from wallaroo.backoff import Backoff
from wallaroo.engine.directory.home import Home
from wallaroo.engine.failure import Failure, Kind
from wallaroo.engine.spark.error_messages import cannot_go_on
from wallaroo.errors import ApplicationError
from wallaroo.files import room_in, takes_nothing
from wallaroo.notices import Notice

ENOUGH_ROOM = 16 << 20
"""How many bytes must be free before a query is started again: with less, it would soon fail for the same reason."""

_TRIES = 4
_MOST_FATAL_CALLS = 10
_MOST_LESSONS = 3 * _MOST_FATAL_CALLS
"""How many failures in a row may teach something: that a call is fatal is known after three deaths."""
_LONGEST_PAUSE = 30.0
_LOOK_SECONDS = 0.5
_TRY_ANYWAY_SECONDS = 60.0


class RestartPolicy:
    """Decides for each failure of a run's query whether, and when, the query may start again."""

    def __init__(self, home: Home, folders: Sequence[Path], interrupted: threading.Event, notice: Notice) -> None:
        self._home = home
        self._folders = [home.path, *folders]
        self._interrupted = interrupted
        self._notice = notice
        self._trouble = ""
        self._tries = 0
        self._lessons = 0
        self._waits = 0
        self._done = 0
        self._fatal_in_a_row = 0
        """How many calls have been found to be fatal without a block being delivered in between."""
        self._known_calls: set[str] = set()

    def passes(self, failure: Failure) -> bool:
        """Tell whether the cause of a failure may go away by itself, or with a little help, while the run goes on."""
        if failure.kind == Kind.APPLICATION:
            return False
        return failure.kind != Kind.FINAL or self._full_folder() is not None

    def wait(
        self, failure: Failure, done: int, fatal_calls: Mapping[str, str] | None = None, *, learned: bool = False
    ) -> bool:
        """Return true when the query may start again, and false when the run is asked to stop instead.

        `done` is how many blocks have been delivered so far, and `fatal_calls` which calls, with their steps, are left
        out from now on, for workers have died at them: with each of both the tries begin anew. A failure from which
        something was `learned` is no try, and there is nothing to wait for.

        Raises:
            ApplicationError: The program has to be changed.
            WallarooError: The failure is not one that passes, or it came too often, or for too many messages.
        """
        self.progress(done)
        if failure.kind == Kind.APPLICATION:
            raise ApplicationError(
                f"{failure.text}\nWhat was accepted is kept: with a mended program the same command goes on from there."
            )
        if failure.kind == Kind.NO_ROOM or (failure.kind == Kind.LOST and any(map(takes_nothing, self._folders))):
            # Spark does not tell the one from the other.
            self._waits += 1
            return self._room_comes(failure.text)
        self._take_note_of(fatal_calls or {})
        if learned:
            self._lessons += 1
        else:
            self._tries += 1
        if not self.passes(failure) or self._tries > _TRIES or self._lessons > _MOST_LESSONS:
            raise cannot_go_on(failure.text, self._home)
        if self._full_folder():
            # Not everything that fails on a full disk says why.
            return self._room_comes(failure.text)
        self._tell(f"Processing failed: {failure.text.rstrip('.')}. It goes on from the last commit; nothing is lost.")
        return not self._interrupted.wait(0 if learned else _pause(self._tries))

    def hold_up(self, reason: str) -> None:
        """Say what keeps outputs from being recorded, while they wait until they can be."""
        self._tell(self._what_is_full(reason))

    def progress(self, done: int) -> None:
        """Take note of how many blocks have been delivered, and say so if that ends a trouble."""
        if done == self._done:
            return
        self._done = done
        self._tries = self._lessons = self._waits = self._fatal_in_a_row = 0
        if self._trouble:
            self._trouble = ""
            self._notice("The application goes on.")

    def _take_note_of(self, fatal_calls: Mapping[str, str]) -> None:
        """Tell which messages have been found to be fatal since the last time; too many are the program's fault."""
        for call in fatal_calls.keys() - self._known_calls:
            self._known_calls.add(call)
            self._fatal_in_a_row += 1
            self._tries = 0
            step = fatal_calls[call]
            if self._fatal_in_a_row >= _MOST_FATAL_CALLS:
                raise cannot_go_on(
                    f"{self._fatal_in_a_row} messages in a row have killed their workers, the last at {step}",
                    self._home,
                )
            self._notice(f"A message has killed its worker, twice, at {step}: it becomes a dead letter.")

    def _full_folder(self) -> Path | None:
        return next((folder for folder in self._folders if room_in(folder) < ENOUGH_ROOM), None)

    def _room_comes(self, reason: str) -> bool:
        """Wait for room. Now and then it is tried without: what is too little for one application may do for this."""
        self._tell(self._what_is_full(reason))
        deadline = time.monotonic() + _TRY_ANYWAY_SECONDS
        if self._interrupted.wait(_pause(self._waits + self._tries)):
            return False
        while self._full_folder() and time.monotonic() < deadline:
            if self._interrupted.wait(_LOOK_SECONDS):
                return False
        return True

    def _what_is_full(self, reason: str) -> str:
        folder = self._full_folder()
        where = f"The disk that holds {folder} is full." if folder else f"A disk is full: {reason.rstrip('.')}."
        return f"{where} The application waits for room there; nothing is lost."

    def _tell(self, text: str) -> None:
        """Say what the trouble is, once as long as it lasts."""
        if text != self._trouble:
            self._trouble = text
            self._notice(text)


def _pause(attempt: int) -> float:
    """Return how long to wait before an attempt, counted from one.

    >>> [_pause(attempt) for attempt in (1, 2, 3, 100_000)]
    [0.0, 1.0, 2.0, 30.0]
    """
    return Backoff(1.0, longest=_LONGEST_PAUSE).nth(attempt - 1) if attempt > 1 else 0.0
