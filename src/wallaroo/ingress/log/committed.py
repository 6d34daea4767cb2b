"""A note, in a source's folder, of the position up to which its messages are processed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from wallaroo.ingress.log.format import FILE_MODE

if TYPE_CHECKING:
    from pathlib import Path

_NAME = "committed"
_DIGITS = 20


def read_committed(directory: Path) -> int:
    """Return what is noted in `directory`; a note that is not there, or cannot be read, stands for 0."""
    try:
        text = (directory / _NAME).read_bytes()
    except FileNotFoundError:
        return 0
    return int(text) if len(text) == _DIGITS + 1 and text[:_DIGITS].isdigit() else 0


def note_committed(directory: Path, index: int) -> None:
    """Note a position; the note has always the same size, so a crash leaves the old one or the new one."""
    file = os.open(directory / _NAME, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        os.pwrite(file, b"%0*d\n" % (_DIGITS, index), 0)
    finally:
        os.close(file)
