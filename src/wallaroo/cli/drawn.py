"""Drawings of applications on a terminal: as wide as it is, with colours, in characters that it has."""

from __future__ import annotations

import re
import shutil
import sys

import click

from wallaroo.topology.drawing import draw
from wallaroo.topology.model import Application

_NARROWEST, _WIDEST = 60, 100
_LINES = re.compile("[─═│╭╮╰╯├╞┬╤╕╘▶]+")
_WITHOUT_UNICODE = str.maketrans("─═│╭╮╰╯├╞┬╤╕╘▶⇉◆◇○—", "-=|++++++++++>>*.o-")


def show_drawing(application: Application) -> None:
    """Print a drawing of the application, and an empty line after it."""
    width = shutil.get_terminal_size((_WIDEST, 0)).columns
    drawing = draw(application, min(max(width, _NARROWEST), _WIDEST))
    click.echo(coloured(in_encoding(drawing, sys.stdout.encoding or "utf-8")) + "\n")


def in_encoding(drawing: str, encoding: str) -> str:
    """Return a drawing in characters that an encoding has.

    >>> in_encoding("│ split ╞══▶│ café │", "ascii"), in_encoding("│ café │", "utf-8")
    ('| split +==>| caf? |', '│ café │')
    """
    try:
        drawing.encode(encoding)
    except UnicodeEncodeError:
        return drawing.translate(_WITHOUT_UNICODE).encode(encoding, "replace").decode(encoding)
    return drawing


def coloured(drawing: str) -> str:
    """Return a drawing with its names in bold and its lines stepping back behind the text."""
    lines = drawing.split("\n")
    shown = []
    for before, line in zip(["", *lines], lines, strict=False):
        if not before and not line.startswith("◆"):
            shown.append(click.style(line, bold=True) if line else line)
        else:
            shown.append(_LINES.sub(lambda found: click.style(found[0], dim=True), line))
    return "\n".join(shown)
