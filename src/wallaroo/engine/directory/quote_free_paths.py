"""Paths that need no quoting in any program.

Spark, Hadoop, log4j, the options of a JVM and its start scripts each have special characters: a comma, a `%`, a `$`, a
space. Quoting a path for all of them, one inside the other, is not possible. So a folder whose path has unsafe
characters is reached through a symbolic link with a safe path.
"""

from __future__ import annotations

import os
import re
import unicodedata
from pathlib import Path

from wallaroo.errors import DirectoryError

_PLAIN = re.compile(r"/[A-Za-z0-9_./+-]*")
_LONGEST_PLAIN = 1024
_ROOM_BELOW = 512
"""How many bytes of a path are reserved for the files below an application's directory; the longest has about 300."""


def is_safe_path(path: Path | str) -> bool:
    """Return whether this is an absolute path that needs no quoting in any program.

    >>> is_safe_path("/srv/state-1"), is_safe_path("/srv/my state"), is_safe_path("state")
    (True, False, False)
    """
    return _PLAIN.fullmatch(str(path)) is not None and len(str(path)) <= _LONGEST_PLAIN


def safe_path(folder: Path, link: Path) -> Path:
    """Return a safe path to `folder`: its own, or otherwise `link`, which is created."""
    folder = Path(os.path.abspath(folder))  # noqa: PTH100 - a link is not relative to the current folder
    if is_safe_path(folder):
        return folder
    link.unlink(missing_ok=True)
    link.symlink_to(folder)
    return link


def refuse_unusable(folder: Path) -> None:
    """Refuse a directory whose name cannot be displayed, or whose files would have paths that are too long.

    Raises:
        DirectoryError: It is such a directory; nothing has been changed.
    """
    if any(unicodedata.category(character) in {"Cc", "Cs"} for character in str(folder)):
        raise DirectoryError(
            f"The directory {str(folder)!r} cannot be used: its name has control characters, such as a line break, or "
            "bytes that are not text. Choose another one with --resilience-dir."
        )
    most = os.pathconf("/", "PC_PATH_MAX") - _ROOM_BELOW
    if (size := len(os.fsencode(folder))) > most:
        raise DirectoryError(
            f"The directory {str(folder)[:60]}... cannot be used: its path has {size:,} bytes, and may have {most:,} "
            "at most, because the paths of the files in it are longer. Choose another one with --resilience-dir."
        )


def require_safe_path(folder: Path) -> None:
    """Refuse an unsafe path for a directory that the machines of a cluster share, as a link exists on one machine only.

    Raises:
        DirectoryError: The path is not safe.
    """
    if not is_safe_path(folder):
        raise DirectoryError(
            f"The directory {folder} cannot be used on a cluster: all machines have to reach it under this path, and "
            "it has characters that Spark does not take as they are. Choose one with --resilience-dir whose path has "
            "only letters (a to z), digits and . _ + - in it."
        )
