"""Names of folders that every program takes as they are.

Spark, Hadoop, log4j, the options of a JVM and the scripts that start one each have characters that mean something to
them: a comma, a `%`, a `$`, a space. Quoting a name for all of them, one inside the other, is not to be had. So a
folder whose name has other characters than the plain ones is reached through a link with a plain name.
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
"""How many bytes of a path are left to the files below an application's directory; the longest has some 300."""


def is_plain(path: Path | str) -> bool:
    """Tell whether every program takes this absolute path as it is.

    >>> is_plain("/srv/state-1"), is_plain("/srv/my state"), is_plain("state")
    (True, False, False)
    """
    return _PLAIN.fullmatch(str(path)) is not None and len(str(path)) <= _LONGEST_PLAIN


def plain_path(folder: Path, link: Path) -> Path:
    """Return a plain path to `folder`: its own, or otherwise `link`, which is made for that."""
    folder = Path(os.path.abspath(folder))  # noqa: PTH100 - a link does not lead on from the current folder
    if is_plain(folder):
        return folder
    link.unlink(missing_ok=True)
    link.symlink_to(folder)
    return link


def refuse_unusable(folder: Path) -> None:
    """Refuse a directory whose name could not be shown, or whose files would have paths that are too long.

    Raises:
        DirectoryError: It is such a directory; nothing has been touched.
    """
    if any(unicodedata.category(character) in {"Cc", "Cs"} for character in str(folder)):
        raise DirectoryError(
            f"The directory {str(folder)!r} cannot be used: its name has control characters, such as a line break, or "
            "bytes that are no text. Choose another one with --resilience-dir."
        )
    most = os.pathconf("/", "PC_PATH_MAX") - _ROOM_BELOW
    if (size := len(os.fsencode(folder))) > most:
        raise DirectoryError(
            f"The directory {str(folder)[:60]}... cannot be used: its path has {size:,} bytes, and may have {most:,} "
            "at the most, for the files in it have longer ones. Choose another one with --resilience-dir."
        )


def refuse_if_not_plain(folder: Path) -> None:
    """Refuse a directory that the machines of a cluster share: there is no link to it that all of them would see.

    Raises:
        DirectoryError: Its path is not plain.
    """
    if not is_plain(folder):
        raise DirectoryError(
            f"The directory {folder} cannot be used on a cluster: all machines have to reach it under this path, and "
            "it has characters that Spark does not take as they are. Choose one with --resilience-dir whose path has "
            "only letters (a to z), digits and . _ + - in it."
        )
