"""The dead-letter file: messages that user code could not handle are stored, counted, and reported with throttling."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from wallaroo.engine.transport.dead_letter_record import Letter, described
from wallaroo.files import reserve
from wallaroo.notices import Notice

_SUMMARY_SECONDS = 10.0
_ID_BYTES = 6
"""Few enough for an id to be copied by hand; a unique prefix is enough."""


class DeadLetterFile:
    """Appends records to a file, one JSON object per line, and reports each kind of error once in full.

    The letters of a block are appended with one write. A reader may still see a part of it, because the system makes a
    large write visible page by page; a line is complete when it ends with a newline.
    """

    def __init__(self, path: Path, notice: Notice) -> None:
        self._path = path
        self._notice = notice
        self._kinds: dict[tuple[str, ...], _Repeated] = {}
        self._reporting = threading.Lock()
        self.count = 0

    def add(self, records: list[Letter]) -> None:
        """Append `records`, and give each an id."""
        # Lone surrogates in an error's text are written as JSON escapes.
        _append(self._path, "".join(map(_line, records)).encode(errors="backslashreplace"))
        self.count += len(records)
        with self._reporting:
            for record in records:
                self._report(record)

    def _report(self, record: Letter) -> None:
        # The text of an error often contains the message, so its class and its traceback identify the kind.
        place = record["traceback"].rpartition(record["error"])[0]
        kind = (record["pipeline"], record["step"], record["error"].partition(":")[0], place)
        repeated = self._kinds.get(kind)
        if repeated is None:
            where = f"Pipeline {record['pipeline']!r}, step {record['step']!r}"
            self._kinds[kind] = _Repeated(where, time.monotonic())
            self._notice(f"{described(record)}\nThe message is kept in {self._path}; the application goes on.")
            return
        repeated.unreported += 1
        repeated.error = record["error"]

    def sum_up(self, *, all_of_them: bool = False) -> None:
        """Report how often errors were repeated, for each kind at most every few seconds."""
        now = time.monotonic()
        with self._reporting:
            for repeated in self._kinds.values():
                due = now - repeated.reported_at >= _SUMMARY_SECONDS
                if repeated.unreported and (due or all_of_them):
                    self._notice(f"{repeated.where}: {repeated.error} — {repeated.unreported:,} more times.")
                    repeated.reported_at = now
                    repeated.unreported = 0

    def close(self) -> None:
        """Report what has not been reported yet."""
        self.sum_up(all_of_them=True)


class _Repeated:
    def __init__(self, where: str, now: float) -> None:
        self.where = where
        self.reported_at = now
        self.unreported = 0
        self.error = ""


def _line(record: Letter) -> str:
    return json.dumps({"id": secrets.token_hex(_ID_BYTES), **record}, ensure_ascii=False) + "\n"


def _append(path: Path, lines: bytes) -> None:
    """Append lines, all of them or, if there is no space, none.

    A line torn by a crash is terminated with a newline, and stays: a process that follows the file may have read it,
    and would miss bytes that replace it. Its block is computed again, and so are its letters.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(file).st_size
        torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
        rest = memoryview(b"\n" + lines if torn else lines)
        # A process that follows the file must not see the part of the lines that still fits on a full disk.
        reserve(file, size + len(rest))
        try:
            # One write, unless the system accepts less, so that a concurrent reader rarely sees a partial line.
            while rest:
                rest = rest[os.write(file, rest) :]
        except OSError:
            os.ftruncate(file, size)
            raise
    finally:
        os.close(file)


def read_letters(path: Path) -> Iterator[Letter]:
    """Yield the dead letters in a file, the oldest first; incomplete and damaged lines are skipped.

    Letters of a release that gave them no ids are identified by a hash of their content.
    """
    with suppress(FileNotFoundError), path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            letter = _parsed(line)
            if letter is not None:
                yield {"id": hashlib.sha256(line.encode()).hexdigest()[: 2 * _ID_BYTES], **letter}
            if not line.endswith("\n"):
                return  # The rest of it may just be written, and is not a line of its own.


def _parsed(line: str) -> Letter | None:
    """Return the letter in a line, None if it is incomplete or damaged."""
    try:
        letter = json.loads(line)
    except ValueError:
        return None
    return letter if isinstance(letter, dict) else None
