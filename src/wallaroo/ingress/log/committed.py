"""A file in a source's folder with the positions up to which the messages of its lanes are committed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from wallaroo.ingress.log.format import FILE_MODE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_NAME = "committed"
_DIGITS = 20
_STRIDE = 32
"""From the place of one lane to that of the next: no position crosses the boundary of a sector."""


def read_committed(directory: Path) -> dict[int, int]:
    """Return the committed positions in `directory` by lane, without those that are missing or cannot be parsed."""
    try:
        content = (directory / _NAME).read_bytes()
    except FileNotFoundError:
        return {}
    places = (content[at : at + _DIGITS + 1] for at in range(0, len(content), _STRIDE))
    return {
        lane: int(text) for lane, text in enumerate(places) if len(text) == _DIGITS + 1 and text[:_DIGITS].isdigit()
    }


def note_committed(directory: Path, ends: Mapping[int, int]) -> None:
    """Write positions by lane; each always has the same size, so a crash leaves the old one or the new one."""
    file = os.open(directory / _NAME, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        for lane, index in ends.items():
            os.pwrite(file, b"%0*d\n" % (_DIGITS, index), lane * _STRIDE)
    finally:
        os.close(file)
