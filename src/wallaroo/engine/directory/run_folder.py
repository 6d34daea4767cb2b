"""The folder for what a run needs only while it lasts: sockets, and the temporary files of Spark's JVM.

It lies in the system's temporary folder, because the path of a socket must be short and that of an application's
directory may be long. A run that is killed leaves its folder behind; the next run of any application of the same user
removes it. Spark is told paths in here, so they are plain.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from wallaroo.engine.directory.plain_names import is_plain
from wallaroo.errors import DirectoryError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_RUNS = ".run"  # Never the name of an application's directory.
_NAMES_LOOKED_AT = 100
_LONGEST_SOCKET_PATH = 103
"""In bytes, where it is shortest: on macOS. Linux has 107."""
_LONGEST_NAMES = ("0" * 8, ".01234567-89ab-cdef-0123-456789abcdef.sock")
"""Of a run's folder, and of a socket in it: Spark and its workers make up such names, ours are shorter."""


def users_folder(temporary: str) -> Path:
    """Return this user's own folder in a temporary folder, made if need be."""
    while not _is_made(folder := found_users_folder(temporary)):
        pass  # Somebody has just taken the name that was free.
    return folder


def found_users_folder(temporary: str) -> Path:
    """Return this user's own folder in a temporary folder, or, where there is none yet, a name that is free for it.

    Others may have put anything there, also under the usual name; then the folder has a number behind it. It stays the
    user's when a name before it becomes free.
    """
    usual = Path(temporary) / f"wallaroo-{os.getuid()}"
    free = None
    for number in count(1):
        folder = usual if number == 1 else usual.with_name(f"{usual.name}-{number}")
        if _is_ours(folder):
            return folder
        if free is None and not os.path.lexists(folder):
            free = folder
        if free is not None and number >= _NAMES_LOOKED_AT:
            break
    return free or usual


@contextmanager
def run_folder() -> Iterator[Path]:
    """Make a folder for the time of a `with` block, and remove those of runs that were killed."""
    runs = _private(users_folder(temporary_folder()) / _RUNS)
    with _locked(runs):
        for left in runs.iterdir():
            _remove_if_left(left)
        folder = Path(tempfile.mkdtemp(dir=runs, prefix=""))
        # It ends with this process. Services that tidy up temporary folders leave a locked one alone, too.
        lock = os.open(folder, _FOLDER)
        fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def temporary_folder() -> str:
    """Return the temporary folder, or the usual one where sockets cannot be in folders below it.

    Their paths have to be short, and without capitals: Spark's workers look for the sockets of states in small letters.
    """
    chosen = tempfile.gettempdir()
    longest = Path(found_users_folder(chosen), _RUNS, *_LONGEST_NAMES)
    fits = is_plain(chosen) and chosen == chosen.lower() and len(str(longest)) <= _LONGEST_SOCKET_PATH
    return chosen if fits else "/tmp"  # noqa: S108 - made private below


def _private(folder: Path) -> Path:
    """Return a folder that is this user's alone, made if need be."""
    if not _is_made(folder):
        raise DirectoryError(f"{folder} belongs to another user, or is no directory. It has to be moved away first.")
    return folder


def _is_made(folder: Path) -> bool:
    """Make a folder for this user alone where there is nothing; tell whether there is one now."""
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        if not _is_ours(folder):
            return False
        if stat.S_IMODE(folder.lstat().st_mode) != 0o700:
            folder.chmod(0o700)
    except OSError as error:
        raise DirectoryError(f"The directory {folder} cannot be used: {error.strerror}.") from error
    return True


def _is_ours(folder: Path) -> bool:
    """Tell whether there is a folder of this user's."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    lock = os.open(folder, _FOLDER)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _remove_if_left(folder: Path) -> None:
    """Remove a folder that no run holds."""
    try:
        lock = os.open(folder, _FOLDER)
    except OSError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return
    else:
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
