"""Dead letters on their way back into the application: a queue in a file, and the source that takes them from there.

`wallaroo dead-letters replay` adds letters to the queue, whether the application runs or not. Each gets the number
that it will have in the log of the replays, so what the log has already is never taken again, whatever dies. The queue
keeps of those only which letters they were.
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

from wallaroo.files import write_atomically
from wallaroo.ingress.log_reader import LogReader
from wallaroo.ingress.source import Source

_LOOK_SECONDS = 1.0
_BACKLOG_BYTES = 4 << 20
_LETTERS_AT_ONCE = 1000


class Replay(NamedTuple):
    """That a letter was given back: when, and whether the application has taken it."""

    time: float
    taken: bool


class ReplayQueue:
    """The file that holds what waits to be replayed, and the names of what has been."""

    def __init__(self, path: Path, log_directory: Path) -> None:
        self._path = path
        self._log = LogReader(log_directory)

    def add(self, letters: Iterable[dict[str, Any]]) -> None:
        """Give letters back, in this order."""
        with self._locked():
            taken = self._log.end()
            lines = list(self.lines())
            kept = [line if line["number"] >= taken else {**line, "letter": None} for line in lines]
            number = max([taken, *(line["number"] + 1 for line in lines)])
            now = time.time()
            for each, letter in enumerate(letters, number):
                kept.append({"number": each, "id": letter["id"], "time": now, "letter": letter})
            write_atomically(self._path, "".join(json.dumps(line) + "\n" for line in kept))

    def replays(self) -> dict[str, Replay]:
        """Return the last replay of each letter, by id."""
        taken = self._log.end()
        return {line["id"]: Replay(line["time"], line["number"] < taken) for line in self.lines()}

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield what the file says."""
        with suppress(FileNotFoundError), self._path.open() as file:
            for line in file:
                yield json.loads(line)

    @property
    def stamp(self) -> tuple[int, int] | None:
        """Return something that is different after the file has been replaced."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns

    @contextmanager
    def _locked(self) -> Iterator[None]:
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)


class ReplaySource:
    """Puts what is in the queue into the log of its source."""

    def __init__(self, queue: ReplayQueue, source: Source) -> None:
        self._queue = queue
        self._source = source
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
        waiting = await asyncio.to_thread(self._waiting, self._source.end)
        for start in range(0, len(waiting), _LETTERS_AT_ONCE):
            some = waiting[start : start + _LETTERS_AT_ONCE]
            # Where the log has lost its end, a number is still not given twice.
            self._source.advance(some[0]["number"])
            self._source.received([json.dumps(line["letter"]).encode() for line in some])
            while self._source.backlog_bytes > _BACKLOG_BYTES or self._source.held_back:  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_SECONDS)  # Nobody tells when there is room again; looking is cheap.

    def _waiting(self, end: int) -> list[dict[str, Any]]:
        return [line for line in self._queue.lines() if line["number"] >= end and line["letter"] is not None]
