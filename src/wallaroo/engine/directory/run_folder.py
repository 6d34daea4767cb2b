"""The temporary folder of a run: sockets, and the temporary files of Spark's JVM.

It is in the system's temporary folder, because the path of a socket must be short, and that of an application's
directory may be long. A killed run leaves its folder behind; the next run of any application of the same user removes
it. Spark uses paths in it, so they must not have special characters.
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

from wallaroo.engine.directory.quote_free_paths import is_safe_path
from wallaroo.errors import DirectoryError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_RUNS = ".run"  # Never the name of an application's directory.
_NAMES_LOOKED_AT = 100
_LONGEST_SOCKET_PATH = 103
"""In bytes, the limit of macOS. Linux has 107."""
_LONGEST_NAMES = ("0" * 8, ".01234567-89ab-cdef-0123-456789abcdef.sock")
"""Of a run's folder, and of a socket in it: Spark and its workers generate such names, our own are shorter."""


def users_folder(temporary: str) -> Path:
    """Return this user's own folder in a temporary folder; create it if necessary."""
    while not _is_made(folder := found_users_folder(temporary)):
        pass  # Another user has just taken the name.
    return folder


def found_users_folder(temporary: str) -> Path:
    """Return this user's own folder in a temporary folder, or, if there is none yet, a free name for it.

    Other users may have created something under the usual name; then a number is appended. The folder stays in use
    even if a lower number becomes free.
    """
    usual = Path(temporary) / f"wallaroo-{os.getuid()}"
    taken = (_numbered(usual, number) for number in _numbers_taken(usual))
    if ours := next(filter(_is_ours, taken), None):
        return ours
    names = (_numbered(usual, number) for number in count(1))
    return next(name for name in names if not os.path.lexists(name))


def short_users_folder() -> Path:
    """Return this user's own folder with a path short enough for sockets; create it if necessary."""
    with _explaining_the_place():
        return users_folder(temporary_folder())


@contextmanager
def run_folder() -> Iterator[Path]:
    """Create a folder for the duration of a `with` block, and remove those of killed runs."""
    with _explaining_the_place():
        runs = _private(users_folder(temporary_folder()) / _RUNS)
    with _locked(runs):
        for left in runs.iterdir():
            _remove_if_left(left)
        folder = Path(tempfile.mkdtemp(dir=runs, prefix=""))
        # The lock ends with this process. Services that clean up temporary folders also skip locked ones.
        lock = os.open(folder, _FOLDER)
        fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def temporary_folder() -> str:
    """Return the temporary folder, or /tmp if the configured one is unsuitable for sockets.

    Their paths have to be short, and in lower case: Spark's workers convert the paths of state sockets to lower case.
    """
    chosen = tempfile.gettempdir()
    return "/tmp" if _unfit(chosen) else chosen  # noqa: S108 - made private below


def _unfit(temporary: str) -> str | None:
    """Return, as text, why folders below this one are unsuitable for sockets, None if they are suitable."""
    longest = Path(found_users_folder(temporary), _RUNS, *_LONGEST_NAMES)
    if len(str(longest)) > _LONGEST_SOCKET_PATH:
        return "its path is too long for the sockets in it"
    if not is_safe_path(temporary) or temporary != temporary.lower():
        return "its path has capitals, or characters that Spark does not take as they are"
    return None


@contextmanager
def _explaining_the_place() -> Iterator[None]:
    """If a folder cannot be created, also explain why the configured temporary folder is not used."""
    try:
        yield
    except DirectoryError as error:
        chosen = tempfile.gettempdir()
        if why := _unfit(chosen):
            raise DirectoryError(f"{error} The temporary folder {chosen} is not used: {why}.") from error
        raise


def _numbered(usual: Path, number: int) -> Path:
    return usual if number == 1 else usual.with_name(f"{usual.name}-{number}")


def _numbers_taken(usual: Path) -> list[int]:
    """Return the numbers of the names that are in use; the usual name has the number 1."""
    kind = re.compile(re.escape(usual.name) + r"(?:-([2-9]|[1-9][0-9]+))?")
    try:
        found = [kind.fullmatch(name) for name in os.listdir(usual.parent)]  # noqa: PTH208 - it may be a large folder
    except OSError:
        return [*range(1, _NAMES_LOOKED_AT + 1)]  # It cannot be listed.
    return sorted(int(match[1] or 1) for match in found if match)


def _private(folder: Path) -> Path:
    """Return a private folder of this user; create it if necessary."""
    if not _is_made(folder):
        raise DirectoryError(f"{folder} belongs to another user, or is not a directory. Move it away first.")
    return folder


def _is_made(folder: Path) -> bool:
    """Create a private folder if nothing exists there; return whether it is now this user's folder."""
    try:
        is_new = _has_made(folder)
        if not _is_ours(folder):
            if is_new:
                folder.rmdir()
                raise DirectoryError(
                    _unusable(folder, "the disk that it is on assigns what this user creates to another user")
                )
            return False
        _shut_others_out(folder)
    except OSError as error:
        raise DirectoryError(f"The directory {folder} cannot be used: {error.strerror}.") from error
    return True


def _has_made(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return False
    return True


def _shut_others_out(folder: Path) -> None:
    if stat.S_IMODE(folder.lstat().st_mode) == 0o700:
        return
    with suppress(OSError):  # Checked below: a file system without modes may also ignore it silently.
        folder.chmod(0o700)
    if stat.S_IMODE(folder.lstat().st_mode) & 0o077:
        why = "others can access it, and the disk that it is on stores no permissions, so that cannot be prevented"
        raise DirectoryError(_unusable(folder, why))


def _unusable(folder: Path, why: str) -> str:
    return f"The directory {folder} cannot be used: {why}. Set TMPDIR to a folder on another disk."


def _is_ours(folder: Path) -> bool:
    """Return whether this is a folder that belongs to this user."""
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
    """Remove a folder that no run has locked."""
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
