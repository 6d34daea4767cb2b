"""Finds the messages that kill their workers, from the notes of workers that died.

When one worker dies, Spark kills all other workers of the query, too. So only one death counts in each attempt: that of
the task whose connection to the driver broke first. In the next attempt that task notes every call in that block. A
call in which two processes have died is not made again. All of this is discarded when the blocks are committed, as they
are not computed again.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import NamedTuple

from wallaroo.engine.transport.crash_notes import Care, Note, step_of

FIRST_STAGE = -1
_FATAL = 2
"""A call in which this many processes have died is not made again."""


class Death(NamedTuple):
    """The death of a process while it ran a task."""

    level: int
    partition: int
    note: Note


class _Call(NamedTuple):
    level: int
    partition: int
    block: int
    name: str


class WorkerDeaths:
    """The deaths since the last commit."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._deaths: list[Death] = []

    def take(self, death: Death) -> bool:
        """Record a death; return whether the next attempt can use it, to note more calls or to skip one."""
        with self._lock:
            known = death in self._deaths
            fatal = len(self._fatal())
            self._deaths.append(death)
            return not known or len(self._fatal()) > fatal

    def forget_before(self, block: int) -> None:
        """Discard deaths in blocks that are committed."""
        with self._lock:
            self._deaths = [death for death in self._deaths if death.note.block >= block]

    def care(self, level: int, partition: int) -> Care:
        """Return in which blocks a task has to note its calls, and which calls it must skip."""
        mine = (level, partition)
        with self._lock:
            blocks = frozenset(death.note.block for death in self._deaths if death[:2] == mine)
            fatal = self._fatal()
        calls: dict[int, dict[str, str]] = {}
        first_calls: dict[int, dict[str, str]] = {}
        for call, words in fatal.items():
            if (call.level, call.partition) == mine:
                calls.setdefault(call.block, {})[call.name] = words
            if call.level == FIRST_STAGE:
                first_calls.setdefault(call.block, {})[call.name] = words
        return Care(blocks, calls, first_calls)

    def fatal_calls(self) -> dict[str, str]:
        """Return the calls that must not be made again, each with its step."""
        with self._lock:
            return {repr(tuple(call)): step_of(call.name) for call in self._fatal()}

    def _fatal(self) -> dict[_Call, str]:
        made = [
            (_Call(level, partition, note.block, note.call), note.last_words)
            for level, partition, note in self._deaths
            if note.call
        ]
        times = Counter(call for call, _ in made)
        return {call: words for call, words in made if times[call] >= _FATAL}
