"""Messages that user code could not handle: kept in a file, counted, and told without flooding the screen."""

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
from wallaroo.sizes import plural

_SUMMARY_SECONDS = 10.0
_ID_BYTES = 6
"""So few that an id can be copied by hand; parts of it that no other letter has are enough."""


class DeadLetterFile:
    """Appends records to a file, one JSON object a line, and reports each kind of error once in full.

    The letters of a block are appended with one write. A reader may still see the beginning of it, for the system makes
    a large one visible page by page; what has no newline yet is not a line.
    """

    def __init__(self, path: Path, notice: Notice) -> None:
        self._path = path
        self._notice = notice
        self._kinds: dict[tuple[str, ...], _Repeated] = {}
        self._reporting = threading.Lock()
        self.count = 0

    def add(self, records: list[Letter]) -> None:
        """Keep `records`, and give each an id."""
        # What is not Unicode in an error's text is written as JSON's own escape.
        _append(self._path, "".join(map(_line, records)).encode(errors="backslashreplace"))
        self.count += len(records)
        with self._reporting:
            for record in records:
                self._report(record)

    def _report(self, record: Letter) -> None:
        # The words of an error often name the message; its class and the place it comes from make the kind.
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
        """Tell how often errors have come back, each kind every few seconds at the most."""
        now = time.monotonic()
        with self._reporting:
            for repeated in self._kinds.values():
                due = now - repeated.reported_at >= _SUMMARY_SECONDS
                if repeated.unreported and (due or all_of_them):
                    self._notice(f"{repeated.where}: {repeated.error} — {plural(repeated.unreported, 'more time')}.")
                    repeated.reported_at = now
                    repeated.unreported = 0

    def close(self) -> None:
        """Tell what has not been told yet."""
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
    """Append lines, all of them or, where there is no room, none.

    What a crash has torn off gets an end, and stays: whoever follows the file may have read it, and would miss as much
    of what is written in its place. Its block is computed again, and brings its letters again.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(file).st_size
        torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
        rest = memoryview(b"\n" + lines if torn else lines)
        # Somebody may follow the file, and would have seen the half that fitted on a full disk.
        reserve(file, size + len(rest))
        try:
            # One write, unless the system takes less: whoever reads meanwhile sees as little of a half line as can be.
            while rest:
                rest = rest[os.write(file, rest) :]
        except OSError:
            os.ftruncate(file, size)
            raise
    finally:
        os.close(file)


def read_letters(path: Path) -> Iterator[Letter]:
    """Yield the dead letters in a file, the oldest first; a line that is being written, or is damaged, is left alone.

    Those of a release that gave them no ids are called by what they say.
    """
    with suppress(FileNotFoundError), path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            letter = _parsed(line)
            if letter is not None:
                yield {"id": hashlib.sha256(line.encode()).hexdigest()[: 2 * _ID_BYTES], **letter}
            if not line.endswith("\n"):
                return  # The rest of it may come at this very moment, and is not a line of its own.


def _parsed(line: str) -> Letter | None:
    """Return the letter in a line, None where it is not whole."""
    try:
        letter = json.loads(line)
    except ValueError:
        return None
    return letter if isinstance(letter, dict) else None
