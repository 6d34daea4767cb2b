"""Which messages take their worker with them: known from what the workers that died had noted.

When one worker dies, Spark ends all others of the query, which have done nothing. So one death counts in each life of
the query: that of the task whose line to the driver broke first. The next life is careful at that block, in that task,
and notes every call. A call at which two processes have died is not made again. All of this is forgotten when the
blocks are committed, for nobody computes them again.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import NamedTuple

from wallaroo.engine.transport.worker_notes import Care, Note, step_of

FIRST_STAGE = -1
_FATAL = 2
"""A call at which so many processes have died is not made again."""


class Death(NamedTuple):
    """The end of a process, by itself, while it ran a task."""

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
        """Take note of a death; return whether the next life can make something of it: more care, or a call less."""
        with self._lock:
            known = death in self._deaths
            fatal = len(self._fatal())
            self._deaths.append(death)
            return not known or len(self._fatal()) > fatal

    def forget_before(self, block: int) -> None:
        """Forget what concerns blocks that are committed."""
        with self._lock:
            self._deaths = [death for death in self._deaths if death.note.block >= block]

    def care(self, level: int, partition: int) -> Care:
        """Return what a task has to be careful with."""
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
        """Return the calls that are not to be made again, each with its step."""
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
