"""What a worker process is at: one small file for each, in a folder of the run's, which the driver reads when it dies.

A block is noted when it begins, with one small write. Only in blocks at which a process has died is every call of user
code noted, too.
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
    """Return the name of a call: of the step with this label, and for which message."""
    return f"{label}{_BEHIND_LABEL}{which}"


def step_of(call: str) -> str:
    """Return the label of the step that is called.

    >>> step_of(call_name("step 1 ('count' of 'words')", "17 1"))
    "step 1 ('count' of 'words')"
    """
    return call.partition(_BEHIND_LABEL)[0]


class Note(NamedTuple):
    """What a process has written down."""

    block: int
    """The block that it had begun last."""
    call: str
    """The call of user code that it was at; empty where it was at none, or took no notes of them."""
    last_words: str
    """How Python said that it died, where it could."""


class Care(NamedTuple):
    """What a task has to be careful with, because of what processes have died at."""

    blocks: frozenset[int]
    """The blocks in which it has to note every call."""
    calls: Mapping[int, Mapping[str, str]]
    """By block: the calls that it must not make, with the last words of those who did."""
    first_calls: Mapping[int, Mapping[str, str]]
    """The same for the first stage, which any task may run again to find out where a message came from."""

    def as_json(self) -> list[Any]:
        """Return it as something that JSON can tell."""
        return [sorted(self.blocks), list(self.calls.items()), list(self.first_calls.items())]

    @classmethod
    def from_json(cls, data: list[Any]) -> Self:
        """Return what `as_json` gave.

        >>> care = Care(frozenset({7}), {7: {"call": "words"}}, {})
        >>> Care.from_json(care.as_json()) == care
        True
        """
        blocks, calls, first_calls = data
        return cls(frozenset(blocks), dict(calls), dict(first_calls))


NO_CARE = Care(frozenset(), {}, {})


class WorkerNote:
    """The file of one process. Where there is no room for it, or no folder, nothing is written down."""

    def __init__(self, folder: Path | None) -> None:
        self.name = uuid.uuid4().hex
        self._file: int | None = None
        if folder is None:
            return
        with suppress(OSError):
            self._file = os.open(folder / self.name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            # From here on there is room for what is written before the trace.
            self._write(b"\n" * _TRACE_AT, 0)

    def begin(self, block: int) -> None:
        """Write down which block is about to be computed."""
        self._write(b"%d\n" % block, 0)

    def call(self, text: str) -> None:
        """Write down which call is about to be made."""
        data = text.encode("utf-8", "backslashreplace")
        if len(data) > _LONGEST_CALL:
            digest = hashlib.blake2b(data, digest_size=16).hexdigest().encode()
            data = data[: _LONGEST_CALL - len(digest)].decode(errors="ignore").encode() + digest
        self._write(data + b"\n", _CALL_AT)

    def no_call(self) -> None:
        """Write down that the call has come back."""
        self._write(b"\n", _CALL_AT)

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
        except OSError:
            self._file = None


def take_note(folder: Path, name: str) -> Note | None:
    """Return what a process that is gone has left, and remove it; None where it has left nothing."""
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
