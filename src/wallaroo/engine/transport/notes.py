"""What the workers of this machine were at when they died: one small file for each process, in a folder of the run's.

A process writes down which task it is about to run: a stretch of a log, or what a bucket has in a batch. Only where a
process has died at a task is it run with a note for every call of user code. A file is locked as long as its process
lives, so one that is not locked tells what a dead process was at; nobody has to be there when it dies.

Spark also ends processes that have done nothing, when it gives up a job for the fault of another one. A death counts
only where Spark says that the task itself failed: by running it again within the same job, or in the words with which
it gave up.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from wallaroo.engine.transport.worker_notes import step_of

_FATAL = 2
"""A call at which so many processes have died is not made again."""

_CALL_AT = 256
_TRACE_AT = 512
_BLAMED = "blamed"
_HIDDEN = "."
_own: set[Path] = set()
"""The files of this process, which it must not open again: its lock would end when it closes them."""
_FAILED = re.compile(r"Task (\d+) in stage (\d+)\.0 failed (\d+) times")
"""Spark counts the tasks of a stage, which are its partitions where it runs for the first time, and so all of them."""
_WHOLE = re.compile(r"\d+ \d+ \d+")
_TRACE = re.compile(rb"Fatal Python error: ([^\n]+)")


class Attempt(NamedTuple):
    """Which of Spark's tasks a process runs, and the number of the attempt at it, from zero."""

    stage: int
    partition: int
    number: int


class Note(NamedTuple):
    """What a process has written down."""

    task: str
    """The name of the task."""
    attempt: Attempt
    call: str
    """The call of user code that it was at; empty where it was at none, or took no notes of them."""
    last_words: str
    """How Python said that it died, where it could."""


class Task(NamedTuple):
    """What a process runs at a time, the same in every attempt: a part of what comes from one place."""

    place: tuple[Any, ...]
    """Such as a source, or a bucket of a state."""
    part: Any
    """Which part, told apart from those of all other batches."""

    @property
    def name(self) -> str:
        """Return a short name: the same in every process, and another one for every other task.

        >>> Task(("range", "words"), 17).name == Task(("range", "words"), 17).name != Task(("range", "words"), 18).name
        True
        """
        return f"{_digest(self.place)}-{_digest(self.part)}"


def _digest(thing: Any) -> str:
    return hashlib.blake2b(repr(thing).encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()


class NoteWriter:
    """The file of one process. Where there is no room for it, nothing is written down."""

    def __init__(self, folder: Path) -> None:
        path = folder / uuid.uuid4().hex
        _own.add(path)
        self._file: int | None = None
        with suppress(OSError):
            # Nobody is to find it before it is locked: they would take this process for a dead one.
            unfinished = path.with_name(f"{_HIDDEN}{path.name}")
            self._file = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._write(b"\n" * _TRACE_AT, 0)
            unfinished.rename(path)

    def begin(self, task: Task, attempt: Attempt) -> None:
        """Write down what is about to run."""
        self._write(f"{task.name} {attempt.stage} {attempt.partition} {attempt.number}\n".encode(), 0)

    def call(self, text: str) -> None:
        """Write down which call is about to be made."""
        self._write(text.encode() + b"\n", _CALL_AT)

    def no_call(self) -> None:
        """Write down that the call has come back."""
        self._write(b"\n", _CALL_AT)

    def end(self) -> None:
        """Write down that nothing runs."""
        self._write(b"\n", 0)

    def file_for_trace(self) -> int | None:
        """Return where Python may write its last words."""
        if self._file is not None:
            os.ftruncate(self._file, _TRACE_AT)
            os.lseek(self._file, _TRACE_AT, os.SEEK_SET)
        return self._file

    def _write(self, data: bytes, place: int) -> None:
        if self._file is None:
            return
        try:
            os.pwrite(self._file, data, place)
        except OSError:  # Its room is set aside at the beginning, so this is where there is none.
            self._file = None


class Deaths:
    """What the dead processes have left in a folder."""

    def __init__(self, folder: Path) -> None:
        failed = _failed_attempts(folder)
        # While nothing fails, nobody has to look.
        self._notes = [] if failed is None else [note for _, note in _left_in(folder)]
        self._counted = [note for note in self._notes if note.call and note.attempt in (failed or ())]

    def at(self, task: Task) -> bool:
        """Tell whether a process has died at a task."""
        name = task.name
        return any(note.task == name for note in self._notes)

    def calls(self, task: Task) -> dict[str, str]:
        """Return the calls of a task that are not to be made again, with the last words of who died at them."""
        name = task.name
        return {call: words for (of_task, call), words in self._fatal().items() if of_task == name}

    def calls_at(self, place: tuple[Any, ...]) -> dict[str, str]:
        """Return the same for all tasks of a place."""
        name = _digest(place)
        return {call: words for (of_task, call), words in self._fatal().items() if of_task.startswith(name)}

    def steps(self) -> dict[str, str]:
        """Return the calls, in all tasks, that are not to be made again, each with the step that is called."""
        return {f"{task} {call}": step_of(call) for task, call in self._fatal()}

    def _fatal(self) -> dict[tuple[str, str], str]:
        times = Counter((note.task, note.call) for note in self._counted)
        found = {(note.task, note.call): note.last_words for note in self._counted}
        return {call: words for call, words in found.items() if times[call] >= _FATAL}


def blame(folder: Path, failure: str) -> None:
    """Take down that a job has been given up and, if Spark says so, for which task, which had failed too often."""
    _append(folder, b"")
    for partition, stage, times in _FAILED.findall(failure):
        blame_before(folder, Attempt(int(stage), int(partition), int(times)))


def blame_before(folder: Path, attempt: Attempt) -> None:
    """Take down that the attempts at a task before this one have failed: otherwise there would not be this one."""
    if attempt.number:
        _append(folder, b"".join(b"%d %d %d\n" % attempt._replace(number=each) for each in range(attempt.number)))


def _append(folder: Path, lines: bytes) -> None:
    with suppress(OSError):
        file = os.open(folder / _BLAMED, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, lines)
        finally:
            os.close(file)


def _failed_attempts(folder: Path) -> set[Attempt] | None:
    """Return the attempts that have failed since the last batch was done; None where nothing has."""
    try:
        lines = (folder / _BLAMED).read_text().splitlines()
    except OSError:
        return None
    # Where the disk was full, a line may be torn.
    return {Attempt(*map(int, line.split())) for line in lines if _WHOLE.fullmatch(line)}


def forget_deaths(folder: Path) -> None:
    """Remove what dead processes have left, once what they were at has been done by others."""
    with suppress(OSError):
        if (folder / _BLAMED).exists():
            for path, _ in _left_in(folder):
                path.unlink(missing_ok=True)
            (folder / _BLAMED).unlink()


def _left_in(folder: Path) -> Iterator[tuple[Path, Note]]:
    """Yield the notes of dead processes."""
    try:
        paths = list(folder.iterdir())
    except OSError:
        return
    for path in paths:
        if (
            path.name != _BLAMED
            and not path.name.startswith(_HIDDEN)
            and path not in _own
            and (data := _read_if_left(path))
        ):
            task, *attempt = _line(data, 0).split() or ["", "-1", "-1", "-1"]
            words = _TRACE.search(data, _TRACE_AT)
            last_words = words[1].decode(errors="replace") if words else ""
            yield path, Note(task, Attempt(*map(int, attempt)), _line(data, _CALL_AT), last_words)


def _line(data: bytes, begin: int) -> str:
    return data[begin : data.index(b"\n", begin)].decode()


def _read_if_left(path: Path) -> bytes:
    """Return the content of a file that no process has locked, nothing of any other, or of one that is not whole."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        # Shared: others may look at the same time.
        fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        data = os.pread(file, 1 << 16, 0)
        return data if len(data) >= _TRACE_AT else b""
    except OSError:
        return b""
    finally:
        os.close(file)
