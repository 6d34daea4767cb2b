"""Starting fresh without deleting anything: the contents of an application's directory are moved into a folder in it.

The folder has a different name while files are moved, so that a crash does not leave a part of an application behind:
the next process that opens the directory moves the rest.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import chain, count
from pathlib import Path

from wallaroo.ingress.log.format import sync_directory

LOCK = "lock"
OWN = (
    "commit.json",
    "dead-letters.jsonl",
    "java",
    "layout.json",
    "ledger",
    "log",
    "logs",
    "modules.zip",
    "plan.json",
    "replays.jsonl",
    "scratch",
    "sequence",
    "states",
    # Of earlier versions.
    "checkpoint",
    "damaged",
    "plan.pickle",
    "source.json",
)
"""What an application has in its directory. Anything else does not belong to it."""
_DONE = "before-"
_UNDER_WAY = "being-archived-"


def archive_contents(directory: Path) -> Path | None:
    """Move an application's files in `directory`, except the lock, to a new folder; return it, None without any."""
    if all(entry.is_dir() and not any(entry.iterdir()) for entry in _entries(directory)):
        return None
    done = free_name(directory / (_DONE + time.strftime("%Y-%m-%dT%H-%M-%S")))
    (directory / done.name.replace(_DONE, _UNDER_WAY)).mkdir(mode=0o700)
    sync_directory(directory)
    return finish_archiving(directory)


def finish_archiving(directory: Path) -> Path | None:
    """Finish a move that was interrupted by a crash; return the folder, None if there was none."""
    under_way = next(directory.glob(f"{_UNDER_WAY}*"), None)
    if under_way is None:
        return None
    for entry in _entries(directory):
        entry.rename(free_name(under_way / entry.name))
    done = directory / under_way.name.replace(_UNDER_WAY, _DONE)
    under_way.rename(done)
    sync_directory(directory)
    return done


def is_archive(name: str) -> bool:
    """Return whether this is the name of a folder with files that were, or are being, archived."""
    return name.startswith((_DONE, _UNDER_WAY))


def _entries(directory: Path) -> Iterator[Path]:
    """Yield the files and folders to move."""
    yield from (directory / name for name in OWN if (directory / name).exists())


def free_name(path: Path) -> Path:
    """Return this path, or the first numbered one that does not exist: nothing is ever replaced."""
    names = (path.with_name(f"{path.name}-{number}") for number in count(2))
    return next(free for free in chain([path], names) if not free.exists())
