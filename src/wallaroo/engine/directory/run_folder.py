"""The folder for what a run needs only while it lasts: sockets, and the temporary files of Spark's JVM.

It lies in the system's temporary folder, because the path of a socket must be short and that of an application's
directory may be long. A run that is killed leaves its folder behind; the next run of any application of the same user
removes it.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from wallaroo.errors import DirectoryError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_RUNS = ".run"  # Never the name of an application's directory.
_NAMES_LOOKED_AT = 100


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
    runs = _private(users_folder(_short_temporary_folder()) / _RUNS)
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


def _short_temporary_folder() -> str:
    """Return the temporary folder, or the usual one where its path is too long for sockets in folders below it."""
    chosen = tempfile.gettempdir()
    return chosen if re.fullmatch(r"[\w./+-]{1,30}", chosen) else "/tmp"  # noqa: S108 - made private below


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
