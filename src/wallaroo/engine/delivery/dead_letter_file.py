"""The dead-letter file: messages that user code could not handle are stored, counted, and reported with throttling."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from wallaroo.engine.transport.dead_letter_record import Letter, described
from wallaroo.errors import WallarooError
from wallaroo.files import Replacement, replacement_of, reserve
from wallaroo.notices import Notice, Throttle
from wallaroo.sizes import plural

_SUMMARY_SECONDS = 10.0
_ID_BYTES = 6
"""Few enough for an id to be copied by hand; a unique prefix is enough."""


class DeadLetterFile:
    """Appends records to a file, one JSON object per line, and reports each kind of error once in full.

    The letters of a block are appended with one write. A reader may still see a part of it, because the system makes a
    large write visible page by page; a line is complete when it ends with a newline. The file may be moved
    away, or replaced by `delete_letters`, at any time.
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
            self._kinds[kind] = _Repeated(where)
            self._notice(f"{described(record)}\nThe message is kept in {self._path}; the application continues.")
            return
        repeated.times.add()
        repeated.error = record["error"]

    def sum_up(self, *, all_of_them: bool = False) -> None:
        """Report how often errors were repeated, for each kind at most every few seconds."""
        with self._reporting:
            for repeated in self._kinds.values():
                times = repeated.times
                if times.is_due or (times.unreported and all_of_them):
                    self._notice(f"{repeated.where}: {repeated.error} — {plural(times.take(), 'more time')}.")

    def close(self) -> None:
        """Report what has not been reported yet."""
        self.sum_up(all_of_them=True)


class _Repeated:
    """An error after it was reported in full: how often it has occurred since then."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.error = ""
        self.times = Throttle(_SUMMARY_SECONDS)
        self.times.take()


def _line(record: Letter) -> str:
    return json.dumps({"id": secrets.token_hex(_ID_BYTES), **record}, ensure_ascii=False) + "\n"


def _append(path: Path, lines: bytes) -> None:
    """Append lines, all of them or, if there is no space, none.

    A line torn by a crash is terminated with a newline, and stays: a process that follows the file may have read it,
    and would miss bytes that replace it. Its block is computed again, and so are its letters.
    """
    with _opened_alone(path) as file:
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


@contextmanager
def _opened_alone(path: Path) -> Iterator[int]:
    """Open the file to append to it, while no other process deletes letters from it."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            with suppress(OSError):  # Where a disk has no locks, `delete_letters` refuses to work.
                fcntl.flock(file, fcntl.LOCK_EX)
            if _is_at(path, file):
                yield file
                return
        finally:
            os.close(file)


def _is_at(path: Path, file: int) -> bool:
    """Return whether an open file is the one at `path`: it may have been replaced."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def delete_letters(path: Path, ids: Collection[str]) -> int:
    """Delete letters from a file, to which an application may be appending at this moment.

    What is kept is copied to a new file, which then takes the place of the old one. The file is locked only for the
    last step, in which what was appended meanwhile is copied too, so an application hardly waits. A crash leaves one
    file or the other. Lines that are damaged are kept.

    Args:
        path: The file with the dead letters.
        ids: The ids of those to delete, whole.

    Returns:
        How many of them were there.

    Raises:
        WallarooError: The disk has no locks, so an application could not be kept from writing to the old file.
        OSError: The new file cannot be written; the old one is as it was.
    """
    while True:
        try:
            with path.open("r+b") as old, replacement_of(path) as new:
                deleted = _copy_without(old, new, ids)
                _lock(old.fileno(), path)
                if not _is_at(path, old.fileno()):
                    continue  # Others have deleted letters meanwhile.
                deleted += _copy_without(old, new, ids, whole_lines=False)
                if deleted:
                    new.commit()
                return deleted
        except FileNotFoundError:
            return 0


def _copy_without(old: BinaryIO, new: Replacement, ids: Collection[str], *, whole_lines: bool = True) -> int:
    """Copy the lines of a file from where it was read up to, but for some letters; return how many of these there were.

    With `whole_lines`, what has no newline yet is left for later.
    """
    deleted = 0
    while line := old.readline():
        if whole_lines and not line.endswith(b"\n"):
            old.seek(-len(line), os.SEEK_CUR)
            break
        letter = _parsed(line)
        if letter is not None and letter["id"] in ids:
            deleted += 1
        else:
            new.write(line)
    return deleted


def _lock(file: int, path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError as error:
        raise WallarooError(
            f"Dead letters in {path} cannot be deleted one by one: the disk that it is on has no locks "
            f"({error.strerror}), and an application may be writing to it. Stop the application, and edit the file."
        ) from error


def read_letters(path: Path) -> Iterator[Letter]:
    """Yield the dead letters in a file, the oldest first; incomplete and damaged lines are skipped.

    Letters of a release that gave them no ids are identified by a hash of their content.
    """
    with suppress(FileNotFoundError), path.open("rb") as file:
        for line in file:
            letter = _parsed(line)
            if letter is not None:
                yield letter
            if not line.endswith(b"\n"):
                return  # The rest of it may just be written, and is not a line of its own.


def _parsed(line: bytes) -> Letter | None:
    """Return the letter in a line, None if it is incomplete or damaged."""
    text = line.decode(errors="replace")
    try:
        letter = json.loads(text)
    except ValueError:
        return None
    if not isinstance(letter, dict):
        return None
    return {"id": hashlib.sha256(text.encode()).hexdigest()[: 2 * _ID_BYTES], **letter}
