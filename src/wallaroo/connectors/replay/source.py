"""Dead letters on their way back into the application: a queue in a file, and the source that takes them from there.

`wallaroo dead-letters replay` adds letters to the queue, whether the application runs or not. Each gets the number
that it will have in the log of the replays, so what the log has already is never taken again, whatever dies. The queue
keeps of those only which letters they were. Lines that a disk or a person has spoiled are kept, and passed over.
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
from wallaroo.connectors.pulled import PulledIntake
from wallaroo.files import write_atomically
from wallaroo.ingress.log.reader import LogReader
from wallaroo.notices import Notice

_LOOK_SECONDS = 1.0
_BACKLOG_BYTES = 4 << 20
_LETTERS_AT_ONCE = 1000
_NUMBERS_END = 1 << 62


class Replay(NamedTuple):
    """That a letter was given back: when, and whether the application has taken it."""

    time: float
    taken: bool


class ReplayQueue:
    """The file that holds what waits to be replayed, and the names of what has been."""

    def __init__(self, path: Path, log_directory: Path) -> None:
        self.path = path
        self._log = LogReader(log_directory)

    def add(self, letters: Iterable[dict[str, Any]]) -> None:
        """Give letters back, in this order."""
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
        """Yield what the file says, but for lines that are spoiled."""
        return (line for _, line in self._entries() if line is not None)

    def spoiled(self) -> list[int]:
        """Return which lines of the file, counted from 1, cannot be read or are not in order."""
        return [number for number, (_, line) in enumerate(self._entries(), 1) if line is None]

    def _entries(self) -> Iterator[tuple[str, dict[str, Any] | None]]:
        """Yield the lines of the file and what they say: None where that cannot be told."""
        last = -1
        # We write ASCII. What is not shows as damage this way, and is not taken for a part of the letter.
        with (
            suppress(FileNotFoundError),
            self.path.open(encoding="ascii", errors="backslashreplace", newline="\n") as file,
        ):
            for text in file:
                line = _parsed(text)
                # Numbers ascend. A letter that does not fit in would get another one in the log.
                if line is not None and line["number"] <= last:
                    line = None
                if line is not None:
                    last = line["number"]
                yield text.removesuffix("\n"), line

    @property
    def stamp(self) -> tuple[int, int] | None:
        """Return something that is different after the file has been replaced."""
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


class ReplaySource(PulledIntake):
    """Puts what is in the queue into the log of its source."""

    def __init__(self, queue: ReplayQueue, log: SourceLog, notice: Notice) -> None:
        super().__init__()
        self._queue = queue
        self._log = log
        self._notice = notice
        self._told: set[int] = set()
        self._seen: tuple[int, int] | None = None

    async def run(self) -> None:
        """Look into the queue whenever it has changed."""
        while True:
            stamp = self._queue.stamp
            if stamp != self._seen:
                with suppress(OSError):  # A file that cannot be read now is looked at again.
                    await self._take()
                    self._seen = stamp
            await asyncio.sleep(_LOOK_SECONDS)

    async def _take(self) -> None:
        waiting = await asyncio.to_thread(self._waiting, self._log.end)
        self._tell_spoiled(await asyncio.to_thread(self._queue.spoiled))
        for some in _in_one_go(waiting):
            # Where the log has lost its end, or the queue a line, a letter still gets its own number.
            self._log.advance(some[0]["number"])
            self._log.received([json.dumps(line["letter"]).encode() for line in some])
            while self._log.backlog_bytes > _BACKLOG_BYTES or self._log.held_back:  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_SECONDS)  # Nobody tells when there is room again; looking is cheap.

    def _waiting(self, end: int) -> list[dict[str, Any]]:
        return [line for line in self._queue.lines() if line["number"] >= end and line["letter"] is not None]

    def _tell_spoiled(self, lines: list[int]) -> None:
        if not self._told.issuperset(lines):
            self._told.update(lines)
            self._notice(
                f"Damaged lines in {self._queue.path} are passed over: {', '.join(map(str, lines))}. The dead letters "
                f"that waited there are not replayed; give them back once more (wallaroo dead-letters replay)."
            )


def _in_one_go(lines: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the lines in groups that are not too large, and in which no number is missing."""
    some: list[dict[str, Any]] = []
    for line in lines:
        if some and (line["number"] != some[-1]["number"] + 1 or len(some) == _LETTERS_AT_ONCE):
            yield some
            some = []
        some.append(line)
    if some:
        yield some


def _parsed(text: str) -> dict[str, Any] | None:
    """Return what a line of the queue says, None where it is damaged."""
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
