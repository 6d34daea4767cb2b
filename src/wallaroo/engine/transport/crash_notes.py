"""What a worker process is doing: one small file per process, in the run's folder, which the driver reads if it dies.

Each block is noted at its start, with one small write. Only in blocks in which a process has died, every call of user
code is noted, too.
"""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

_BEHIND_LABEL = "\t"
_CALL_AT = 64
_TRACE_AT = 1024
_LONGEST_CALL = _TRACE_AT - _CALL_AT - 1
_WHOLE_NAME = re.compile(r"[0-9a-f]{32}")
_TRACE = re.compile(rb"Fatal Python error: ([^\n]+)")


def call_name(label: str, which: str) -> str:
    """Return the name of a call of the step with this label, for the message `which`."""
    return f"{label}{_BEHIND_LABEL}{which}"


def step_of(call: str) -> str:
    """Return the label of the called step.

    >>> step_of(call_name("step 1 ('count' of 'words')", "17 1"))
    "step 1 ('count' of 'words')"
    """
    return call.partition(_BEHIND_LABEL)[0]


class Note(NamedTuple):
    """What a process has noted."""

    block: int
    """The block that it had started last."""
    call: str
    """The call of user code that was running; empty if there was none, or calls were not noted."""
    last_words: str
    """The reason in Python's fatal error message, if it could write one."""


class Care(NamedTuple):
    """The precautions of a task in blocks in which processes have died."""

    blocks: frozenset[int]
    """The blocks in which it has to note every call."""
    calls: Mapping[int, Mapping[str, str]]
    """By block: the calls that it must not make, with the fatal error of the processes that made them."""
    first_calls: Mapping[int, Mapping[str, str]]
    """The same for the first stage, which any task may run again to find the origin of a message."""

    def as_json(self) -> list[Any]:
        """Return data that can be written as JSON."""
        return [sorted(self.blocks), list(self.calls.items()), list(self.first_calls.items())]

    @classmethod
    def from_json(cls, data: list[Any]) -> Self:
        """Return the object that `as_json` was called on.

        >>> care = Care(frozenset({7}), {7: {"call": "words"}}, {})
        >>> Care.from_json(care.as_json()) == care
        True
        """
        blocks, calls, first_calls = data
        return cls(frozenset(blocks), dict(calls), dict(first_calls))


NO_CARE = Care(frozenset(), {}, {})


class WorkerNote:
    """The file of one process. Without a folder, or on a full disk, nothing is noted."""

    def __init__(self, folder: Path | None) -> None:
        self.name = uuid.uuid4().hex
        self._file: int | None = None
        if folder is None:
            return
        with suppress(OSError):
            self._file = os.open(folder / self.name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            # Allocates the space for everything that is written before the trace.
            self._write(b"\n" * _TRACE_AT, 0)

    def begin(self, block: int) -> None:
        """Note which block is about to be computed."""
        self._write(b"%d\n" % block, 0)

    def call(self, text: str) -> None:
        """Note which call is about to be made."""
        data = text.encode("utf-8", "backslashreplace")
        if len(data) > _LONGEST_CALL:
            digest = hashlib.blake2b(data, digest_size=16).hexdigest().encode()
            data = data[: _LONGEST_CALL - len(digest)].decode(errors="ignore").encode() + digest
        self._write(data + b"\n", _CALL_AT)

    def no_call(self) -> None:
        """Note that the call has returned."""
        self._write(b"\n", _CALL_AT)

    def file_for_trace(self) -> int | None:
        """Return the file descriptor for Python's fatal error message."""
        if self._file is not None:
            os.ftruncate(self._file, _TRACE_AT)
            os.lseek(self._file, _TRACE_AT, os.SEEK_SET)
        return self._file

    def _write(self, data: bytes, place: int) -> None:
        if self._file is None:
            return
        try:
            os.pwrite(self._file, data, place)
        except OSError:
            self._file = None


def take_note(folder: Path, name: str) -> Note | None:
    """Return the note of a process that has died, and remove it; None if there is none."""
    if not _WHOLE_NAME.fullmatch(name):
        return None
    path = folder / name
    try:
        data = path.read_bytes()
        path.unlink()
    except OSError:
        return None
    block = _line(data, 0)
    if len(data) < _TRACE_AT or not block:
        return None
    words = _TRACE.search(data, _TRACE_AT)
    return Note(int(block), _line(data, _CALL_AT), words[1].decode(errors="replace") if words else "")


def _line(data: bytes, begin: int) -> str:
    return data[begin:].partition(b"\n")[0].decode(errors="replace")
