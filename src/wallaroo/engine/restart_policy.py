"""Transient failures: what to wait for, and for how long, before a failed query is restarted.

On a full disk the run waits for as long as it takes. After a death of a worker, or if the ingress does not answer, the
query is retried a few times. A message that kills its worker repeatedly is identified meanwhile, and skipped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from wallaroo.backoff import Backoff
from wallaroo.engine.directory.home import Home
from wallaroo.engine.failure_kinds import Failure, Kind
from wallaroo.engine.spark.error_messages import cannot_go_on
from wallaroo.errors import ApplicationError
from wallaroo.files import free_space, is_full
from wallaroo.notices import Condition, Notice

ENOUGH_ROOM = 16 << 20
"""How many bytes must be free before a query is restarted: with less, it would soon fail for the same reason."""

_MAX_RETRIES = 4
_MAX_FATAL_CALLS = 10
_MAX_LESSONS = 3 * _MAX_FATAL_CALLS
"""How many failures in a row may give new information: it takes three deaths to identify a fatal call."""
_LONGEST_PAUSE = 30.0
_POLL_SECONDS = 0.5
_TRY_ANYWAY_SECONDS = 60.0


class RestartPolicy:
    """Decides for each failure of a run's query whether, and when, the query is restarted."""

    def __init__(self, home: Home, folders: Sequence[Path], interrupted: threading.Event, notice: Notice) -> None:
        self._home = home
        self._folders = [home.path, *folders]
        self._interrupted = interrupted
        self._notice = notice
        self._disruption = Condition(notice)
        self._retries = 0
        self._lessons = 0
        self._waits = 0
        self._done = 0
        self._fatal_in_a_row = 0
        """How many calls have been identified as fatal without a delivered block in between."""
        self._known_calls: set[str] = set()

    def is_transient(self, failure: Failure) -> bool:
        """Return whether a failure is transient: its cause may go away, or be removed, while the run continues."""
        if failure.kind == Kind.APPLICATION:
            return False
        return failure.kind != Kind.FINAL or self._full_folder() is not None

    def wait(
        self, failure: Failure, done: int, fatal_calls: Mapping[str, str] | None = None, *, learned: bool = False
    ) -> bool:
        """Wait before a restart; return true to restart the query, and false if the run is asked to stop instead.

        `done` is the number of blocks delivered so far. `fatal_calls` are the calls, with their steps, that will be
        skipped because workers have died in them. More blocks or new fatal calls reset the number of retries. A failure
        that has given new information (`learned`) does not count as a retry, and needs no wait.

        Raises:
            ApplicationError: The program has to be changed.
            WallarooError: The failure is not transient, or happened too often, or for too many messages.
        """
        self.progress(done)
        if failure.kind == Kind.APPLICATION:
            raise ApplicationError(
                f"{failure.text}\nAccepted messages are kept: once the program is fixed, the same command resumes "
                "from there."
            )
        if failure.kind == Kind.DISK_FULL or (failure.kind == Kind.LOST and any(map(is_full, self._folders))):
            # Spark does not distinguish a full disk from other failures.
            self._waits += 1
            return self._wait_for_space(failure.text)
        self._report_fatal_calls(fatal_calls or {})
        if learned:
            self._lessons += 1
        else:
            self._retries += 1
        if not self.is_transient(failure) or self._retries > _MAX_RETRIES or self._lessons > _MAX_LESSONS:
            raise cannot_go_on(failure.text, self._home)
        if self._full_folder():
            # Not everything that fails on a full disk says why.
            return self._wait_for_space(failure.text)
        self._disruption.begin_or_change(
            f"Processing failed: {failure.text.rstrip('.')}. It resumes from the last commit; nothing is lost."
        )
        return not self._interrupted.wait(0 if learned else _pause(self._retries))

    def hold_up(self, reason: str) -> None:
        """Report why outputs cannot be recorded, while they wait."""
        self._disruption.begin_or_change(self._what_is_full(reason))

    def progress(self, done: int) -> None:
        """Record how many blocks have been delivered; report it if that ends a disruption."""
        if done == self._done:
            return
        self._done = done
        self._retries = self._lessons = self._waits = self._fatal_in_a_row = 0
        self._disruption.end("The application has resumed.")

    def _report_fatal_calls(self, fatal_calls: Mapping[str, str]) -> None:
        """Report newly identified fatal calls; too many of them are a fault of the program."""
        for call in fatal_calls.keys() - self._known_calls:
            self._known_calls.add(call)
            self._fatal_in_a_row += 1
            self._retries = 0
            step = fatal_calls[call]
            if self._fatal_in_a_row >= _MAX_FATAL_CALLS:
                raise cannot_go_on(
                    f"{self._fatal_in_a_row} messages in a row have killed their workers, the last at {step}",
                    self._home,
                )
            self._notice(f"A message has killed its worker twice, at {step}: it becomes a dead letter.")

    def _full_folder(self) -> Path | None:
        return next((folder for folder in self._folders if free_space(folder) < ENOUGH_ROOM), None)

    def _wait_for_space(self, reason: str) -> bool:
        """Wait for disk space; restart after a while even without: the required amount is only an estimate."""
        self._disruption.begin_or_change(self._what_is_full(reason))
        deadline = time.monotonic() + _TRY_ANYWAY_SECONDS
        if self._interrupted.wait(_pause(self._waits + self._retries)):
            return False
        while self._full_folder() and time.monotonic() < deadline:
            if self._interrupted.wait(_POLL_SECONDS):
                return False
        return True

    def _what_is_full(self, reason: str) -> str:
        folder = self._full_folder()
        where = f"The disk that holds {folder} is full." if folder else f"A disk is full: {reason.rstrip('.')}."
        return f"{where} The application waits for room there; nothing is lost."


def _pause(attempt: int) -> float:
    """Return how long to wait before an attempt, counted from one.

    >>> [_pause(attempt) for attempt in (1, 2, 3, 100_000)]
    [0.0, 1.0, 2.0, 30.0]
    """
    return Backoff(1.0, longest=_LONGEST_PAUSE).nth(attempt - 1) if attempt > 1 else 0.0
