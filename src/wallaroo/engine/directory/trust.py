"""Whether a directory is an application's: its files are replaced, deleted, and read as code.

A directory has to be empty at its first use, and is marked before anything else is created in it. A directory that is
marked, or has a layout that an earlier version has recorded, is an application's, as long as no other user could have
written to it: links inside it could point anywhere, and files of other users could contain anything.
"""

from __future__ import annotations

import json
import os
import pwd
import shlex
import stat
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from wallaroo.engine.directory.archive import LOCK, OWN, free_name, is_archive
from wallaroo.errors import DirectoryError
from wallaroo.ingress.log.format import sync_directory
from wallaroo.path_trust import others_can_write, owned_by_another

MARKER = "wallaroo-directory"
_TEXT = """\
In this directory Wallaroo keeps what an application needs from one run to the next: messages, state, dead letters.
It replaces and deletes files in here. Keep nothing of your own in this directory.
"""
_LAYOUT = {"format", "application", "levels", "singles", "buckets"}
_NAMES_SHOWN = 3
_THROWN_AWAY = "scratch"
"""Deleted at every start, and never read."""


def claim(directory: Path) -> None:
    """Make sure that a directory is an application's; an empty or missing one becomes one.

    Raises:
        DirectoryError: It has other contents, or other users can, or could, write to it.
    """
    if why := _unsuitable(directory):
        raise DirectoryError(f"{directory} cannot be an application's directory: {why}. {_place_inside(directory)}")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if _owner(directory) != os.getuid():
        raise DirectoryError(
            f"The directory {directory} belongs to another user. Choose another one with --resilience-dir."
        )
    if names := _names(directory) or _made_private(directory):
        if not is_applications(directory):
            raise DirectoryError(_what_is_there(directory, names))
        _refuse_traces(directory)
    _mark(directory)


def is_applications(directory: Path) -> bool:
    """Return whether a directory has been an application's before."""
    layout = directory / "layout.json"
    if stat.S_ISREG(_mode(directory / MARKER)):
        return True
    if not stat.S_ISREG(_mode(layout)):
        return False
    try:
        recorded = json.loads(layout.read_text())
    except (OSError, ValueError):
        return False
    return isinstance(recorded, dict) and recorded.keys() >= _LAYOUT


def refuse_untrusted(directory: Path, user: int | None = None) -> None:
    """Refuse to read a directory that belongs to another user, or that others can, or could, write to."""
    if (owner := _owner(directory)) != (os.getuid() if user is None else user):
        raise DirectoryError(
            f"The directory {directory} belongs to another user. Run this as its owner ({_user_name(owner)})."
        )
    _refuse_traces(directory, user)


def _refuse_traces(directory: Path, user: int | None = None) -> None:
    if why := next(_traces(directory, user), None):
        raise DirectoryError(
            f"The directory {directory} cannot be trusted: {why}. What is in it is run as code. Move it away and start "
            "with an empty or a new one. Only if you know all that is in it, and nobody else has changed it: replace "
            f"links by copies, run `chmod -R go-w {shlex.quote(str(directory))}`, and start again."
        )


def _owner(directory: Path) -> int:
    return directory.stat().st_uid


def _user_name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


def _traces(directory: Path, user: int | None) -> Iterator[str]:
    """Yield reasons to assume that others can, or could, write to a directory."""
    if others_can_write(directory, directory.stat()):
        yield f"others can write to {directory}"
    folders: list[os.DirEntry[str]] = []
    for entry in _entries(directory):
        is_read = _is_read(entry.name)
        yield from _trace(entry, user, is_read=is_read)
        if is_read and entry.name != _THROWN_AWAY and not is_archive(entry.name):
            folders.append(entry)
    while folders:
        for entry in _entries(folders.pop()):
            yield from _trace(entry, user)
            folders.append(entry)


def _trace(entry: os.DirEntry[str], user: int | None, *, is_read: bool = True) -> Iterator[str]:
    """Yield reasons to distrust an entry; of entries that are not read, only the owner is checked."""
    try:
        found = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return  # A concurrent run has deleted it.
    if owned_by_another(found, user):
        yield f"{entry.path} belongs to another user"
    elif is_read and stat.S_ISLNK(found.st_mode):
        yield f"{entry.path} is a link"
    elif is_read and stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
        yield f"{entry.path} is a hard link, the same file as one elsewhere"
    elif is_read and others_can_write(entry.path, found):
        yield f"others can write to {entry.path}"


def _entries(folder: Path | os.DirEntry[str]) -> list[os.DirEntry[str]]:
    """Return the entries of a folder; none if it is not a folder, or does not exist any more."""
    if not isinstance(folder, Path) and not folder.is_dir(follow_symlinks=False):
        return []
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return []


def _is_read(name: str) -> bool:
    """Return whether an entry with this name belongs to the application."""
    return name in {MARKER, LOCK, *OWN} or is_archive(name)


def _unsuitable(directory: Path) -> str | None:
    """Return, as text, why a folder is unsuitable as an application's directory, None if it is suitable."""
    real = Path(os.path.realpath(directory))
    if real == Path("/"):
        return "it is the root of the file system"
    if {real, directory} & set(_homes()):
        return "it is a home folder"
    if _is_mount_point(real):
        return "a disk, volume or folder is mounted there"
    if _mode(real) & stat.S_ISVTX:
        return "it is a folder that users share"
    return None


def _place_inside(directory: Path) -> str:
    """Return advice to use a directory inside an unsuitable one, and how to move an existing application there."""
    inside = directory / "wallaroo"
    if not is_applications(directory):
        return f"Choose one inside it, such as {inside}, with --resilience-dir."
    inside = free_name(inside)
    names = " ".join(shlex.quote(name) for name in sorted(filter(_is_read, _names(directory))))
    return (
        "An application has used it before. While that is not running, move what it has there into a directory of "
        f"its own: `cd {shlex.quote(str(directory))} && mkdir -m 700 {inside.name} && mv {names} {inside.name}`. "
        f"Then start it with --resilience-dir {shlex.quote(str(inside))}."
    )


def _homes() -> Iterator[Path]:
    yield from (Path(os.path.normpath(user.pw_dir)) for user in pwd.getpwall())
    yield Path(os.path.realpath(os.path.expanduser("~")))  # noqa: PTH111 - there may be none, which is not an error


def _is_mount_point(real: Path) -> bool:
    if real.is_mount():
        return True
    # A bind mount within one file system can only be found in the list of mounts.
    path = os.fsencode(real).replace(b"\\", b"\\134")
    for character in b" \t\n":
        path = path.replace(bytes([character]), b"\\%03o" % character)
    try:
        mounts = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:
        return False
    return any(line.split()[4:5] == [path] for line in mounts)


def _made_private(directory: Path) -> list[str]:
    """Make an empty directory private; return the names of files that have been created meanwhile."""
    mode = stat.S_IMODE(directory.stat().st_mode)
    if mode == 0o700:
        return []
    with suppress(OSError):  # Checked below: a file system without modes may also ignore it silently.
        directory.chmod(0o700)
    if others_can_write(directory, directory.stat()):
        raise DirectoryError(
            f"The directory {directory} cannot be used: others can write to it, and the disk that it is on "
            "stores no permissions, so that cannot be prevented. Choose one on another disk with --resilience-dir."
        )
    if names := _names(directory):
        directory.chmod(mode)
    return names


def _mark(directory: Path) -> None:
    """Mark a directory as an application's. The mark counts as soon as the file exists, even if it is empty."""
    try:
        file = os.open(directory / MARKER, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return
    try:
        os.write(file, _TEXT.encode())
    finally:
        os.close(file)
    sync_directory(directory)


def _what_is_there(directory: Path, names: list[str]) -> str:
    shown = ", ".join(islice(map(repr, sorted(names)), _NAMES_SHOWN))
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    # An earlier version that was killed early in its first start has left no reliable mark.
    mark = shlex.quote(str(directory / MARKER))
    or_mark = f" If only Wallaroo has put that there, run `touch {mark}`, and start again." * all(map(_is_read, names))
    return (
        f"The directory {directory} is not empty, and not an application's: it has {shown}{more}. What is in an "
        f"application's directory is replaced and deleted. Choose an empty or a new one with --resilience-dir, such as "
        f"{directory / 'wallaroo'}.{or_mark}"
    )


def _names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def _mode(path: Path) -> int:
    try:
        return path.lstat().st_mode
    except OSError:
        return 0
