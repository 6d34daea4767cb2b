"""Where modules are imported from, told to another process, so that it finds the same ones under the same names."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from wallaroo.precedence import prefer, preferred


def import_path() -> list[str]:
    """Return the folders that modules are imported from, as absolute paths."""
    return [os.path.abspath(entry or ".") for entry in sys.path]  # noqa: PTH100 - resolves no links


def way_to_modules() -> dict[str, Any]:
    """Return where the modules of this process come from, as JSON has it."""
    return {"path": import_path(), "preferred": preferred()}


def make_importable(way: Mapping[str, Any]) -> None:
    """Make the modules importable here that are importable where `way` comes from.

    Folders that are missing here are added, each in front of the one that it stands in front of there. Those that this
    machine does not have do no harm.
    """
    place = len(sys.path)
    for entry in reversed(way["path"]):
        if entry in sys.path:
            place = sys.path.index(entry)
        else:
            sys.path.insert(place, entry)
    prefer(way["preferred"])
