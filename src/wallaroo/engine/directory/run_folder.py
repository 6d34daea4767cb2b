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
from pathlib import Path

from wallaroo.engine.directory.plain_names import is_plain
from wallaroo.errors import DirectoryError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_RUNS = ".run"  # Never the name of an application's directory.
_LONGEST_SOCKET_PATH = 103
"""In bytes, where it is shortest: on macOS. Linux has 107."""
_LONGEST_NAMES = ("0" * 8, ".01234567-89ab-cdef-0123-456789abcdef.sock")
"""Of a run's folder, and of a socket in it: Spark and its workers make up such names, ours are shorter."""


def users_folder(temporary: str) -> Path:
    """Return this user's own folder in a temporary folder, in which others may have put anything."""
    return _private(Path(temporary) / _users_name())


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
    longest = Path(chosen, _users_name(), _RUNS, *_LONGEST_NAMES)
    fits = is_plain(chosen) and chosen == chosen.lower() and len(str(longest)) <= _LONGEST_SOCKET_PATH
    return chosen if fits else "/tmp"  # noqa: S108 - made private below


def _users_name() -> str:
    return f"wallaroo-{os.getuid()}"


def _private(folder: Path) -> Path:
    """Return a folder that is this user's alone, made if need be."""
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
    except OSError as error:
        raise DirectoryError(f"The directory {folder} cannot be used: {error.strerror}.") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise DirectoryError(f"{folder} belongs to another user, or is no directory. It has to be moved away first.")
    if stat.S_IMODE(found.st_mode) != 0o700:
        folder.chmod(0o700)
    return folder


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
