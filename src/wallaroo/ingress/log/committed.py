"""A file in a source's folder with the position up to which its messages are committed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from wallaroo.ingress.log.format import FILE_MODE

if TYPE_CHECKING:
    from pathlib import Path

_NAME = "committed"
_DIGITS = 20


def read_committed(directory: Path) -> int:
    """Return the committed position in `directory`; 0 if the file is missing or cannot be parsed."""
    try:
        text = (directory / _NAME).read_bytes()
    except FileNotFoundError:
        return 0
    return int(text) if len(text) == _DIGITS + 1 and text[:_DIGITS].isdigit() else 0


def note_committed(directory: Path, index: int) -> None:
    """Write a position; the file always has the same size, so a crash leaves the old one or the new one."""
    file = os.open(directory / _NAME, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        os.pwrite(file, b"%0*d\n" % (_DIGITS, index), 0)
    finally:
        os.close(file)
