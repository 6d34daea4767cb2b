"""The replay of dead letters: a queue in a file, and the source that takes letters from it.

`wallaroo dead-letters replay` adds letters to the queue, whether the application is running or not. Each letter gets
the index that it will have in the log of the replays, so a letter that is in the log is never taken again, whatever
crashes. Of such letters the queue keeps only the ids. Damaged lines are kept, and skipped.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from wallaroo.connectors.base import SourceLog
from wallaroo.connectors.polling_intake import PollingIntake
from wallaroo.files import write_atomically
from wallaroo.ingress.log.reader import LogReader
from wallaroo.notices import Notice

_POLL_SECONDS = 1.0
_BACKLOG_BYTES = 4 << 20
_LETTERS_AT_ONCE = 1000
_NUMBERS_END = 1 << 62


class Replay(NamedTuple):
    """When a letter was replayed, and whether the application has taken it."""

    time: float
    taken: bool


class ReplayQueue:
    """The file with the letters that wait to be replayed, and the ids of those that have been."""

    def __init__(self, path: Path, log_directory: Path) -> None:
        self.path = path
        self._log = LogReader(log_directory)

    def add(self, letters: Iterable[dict[str, Any]]) -> None:
        """Add letters to the queue, in this order."""
        with self._locked():
            number = taken = self._log.end()
            kept = []
            for text, line in self._entries():
                if line is not None:
                    number = max(number, line["number"] + 1)
                kept.append(text if line is None or line["number"] >= taken else json.dumps({**line, "letter": None}))
            now = time.time()
            for each, letter in enumerate(letters, number):
                kept.append(json.dumps({"number": each, "id": letter["id"], "time": now, "letter": letter}))
            write_atomically(self.path, "".join(text + "\n" for text in kept))

    def replays(self) -> dict[str, Replay]:
        """Return the last replay of each letter, by id."""
        taken = self._log.end()
        return {line["id"]: Replay(line["time"], line["number"] < taken) for line in self.lines()}

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield the entries of the file, without damaged lines."""
        return (line for _, line in self._entries() if line is not None)

    def damaged_lines(self) -> list[int]:
        """Return which lines of the file, counted from 1, are damaged or out of order."""
        return [number for number, (_, line) in enumerate(self._entries(), 1) if line is None]

    def _entries(self) -> Iterator[tuple[str, dict[str, Any] | None]]:
        """Yield the lines of the file with their entries, None for damaged lines."""
        last = -1
        # The file is written in ASCII. Other bytes are damage, and must not become a part of the letter.
        with (
            suppress(FileNotFoundError),
            self.path.open(encoding="ascii", errors="backslashreplace", newline="\n") as file,
        ):
            for text in file:
                line = _parsed(text)
                # Numbers are ascending. A letter out of order would get a different index in the log.
                if line is not None and line["number"] <= last:
                    line = None
                if line is not None:
                    last = line["number"]
                yield text.removesuffix("\n"), line

    @property
    def stamp(self) -> tuple[int, int] | None:
        """Return a value that changes when the file is replaced."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns

    @contextmanager
    def _locked(self) -> Iterator[None]:
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)


class ReplaySource(PollingIntake):
    """Appends the letters in the queue to the log of its source."""

    def __init__(self, queue: ReplayQueue, log: SourceLog, notice: Notice) -> None:
        super().__init__()
        self._queue = queue
        self._log = log
        self._notice = notice
        self._reported: set[int] = set()
        self._seen: tuple[int, int] | None = None

    async def run(self) -> None:
        """Take letters from the queue whenever it has changed."""
        while True:
            stamp = self._queue.stamp
            if stamp != self._seen:
                with suppress(OSError):  # A file that cannot be read now is retried.
                    await self._take()
                    self._seen = stamp
            await asyncio.sleep(_POLL_SECONDS)

    async def _take(self) -> None:
        waiting = await asyncio.to_thread(self._waiting, self._log.end)
        self._report_damaged(await asyncio.to_thread(self._queue.damaged_lines))
        for some in _in_one_go(waiting):
            # Even if the log has lost its tail, or the queue a line, a letter gets its own number.
            self._log.advance(some[0]["number"])
            self._log.received([json.dumps(line["letter"]).encode() for line in some])
            while self._log.backlog_bytes > _BACKLOG_BYTES or self._log.held_back:  # noqa: ASYNC110
                await asyncio.sleep(_POLL_SECONDS)  # There is no notification; polling is cheap.

    def _waiting(self, end: int) -> list[dict[str, Any]]:
        return [line for line in self._queue.lines() if line["number"] >= end and line["letter"] is not None]

    def _report_damaged(self, lines: list[int]) -> None:
        if not self._reported.issuperset(lines):
            self._reported.update(lines)
            self._notice(
                f"Damaged lines in {self._queue.path} are skipped: {', '.join(map(str, lines))}. The dead "
                f"letters queued there are not replayed; queue them again (wallaroo dead-letters replay)."
            )


def _in_one_go(lines: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the entries in groups of limited size with consecutive numbers."""
    some: list[dict[str, Any]] = []
    for line in lines:
        if some and (line["number"] != some[-1]["number"] + 1 or len(some) == _LETTERS_AT_ONCE):
            yield some
            some = []
        some.append(line)
    if some:
        yield some


def _parsed(text: str) -> dict[str, Any] | None:
    """Return the entry in a line of the queue, None if it is damaged."""
    try:
        line = json.loads(text)
        number, name, when, letter = line["number"], line["id"], line["time"], line["letter"]
        is_sound = (
            type(number) is int
            and 0 <= number < _NUMBERS_END
            and isinstance(name, str)
            and isinstance(when, int | float)
            and (letter is None or letter["id"] == name)
        )
    except (ValueError, LookupError, TypeError):
        return None
    return line if is_sound else None
