"""Ownership and permissions: what is run, or read as code, must be writable by this user and root only.

A file is only as safe as the folders above it: a user with write permission for a folder can replace what is in it.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
import sys
from collections import deque
from functools import cache
from pathlib import Path

_ROOT = 0
_MAX_STEPS = 1000
"""Symbolic links can form a cycle."""


def untrusted_reason(path: Path, user: int | None = None) -> str | None:
    """Return, as text, why others could change what is at `path`; None if only `user` and root can.

    Every folder and every symbolic link on the path is checked. In a folder with the sticky bit, such as /tmp, where
    users cannot rename the files of others, only the entry itself is checked.

    Raises:
        OSError: `path` does not exist, or cannot be read.
    """
    place = Path("/")
    rest = deque(Path(os.path.abspath(path)).parts[1:])  # noqa: PTH100 - links are followed one by one
    for _ in range(_MAX_STEPS):
        found = place.lstat()
        if owned_by_another(found, user) and not (rest and _may_be_roots(place, found)):
            return f"{place} belongs to another user"
        if stat.S_ISLNK(found.st_mode):
            rest.extendleft(reversed(place.readlink().parts or (".",)))
            place = place.parent
        elif others_can_write(place, found) and not (rest and found.st_mode & stat.S_ISVTX):
            return f"others can write to {place}"
        if not rest:
            return None
        part = rest.popleft()
        place = place.parent if part == ".." else place / part
    return f"{path} leads in a circle"


def owned_by_another(found: os.stat_result, user: int | None = None) -> bool:
    """Return whether a file belongs neither to `user` nor to root."""
    return found.st_uid not in {os.getuid() if user is None else user, _ROOT}


def others_can_write(path: Path | str, found: os.stat_result) -> bool:
    """Return whether users other than its owner can write to the file or folder at `path`.

    Many systems give each user a private group with write permission by default; such a group does not count.
    """
    if found.st_mode & stat.S_IWOTH:
        return True
    if not found.st_mode & stat.S_IWGRP:
        return False
    return not _is_own_group(found.st_gid, found.st_uid) or _has_acl(path)


def _has_acl(path: Path | str) -> bool:
    """Return whether a file has an access control list: the group's mode is then a mask for everybody on that list."""
    if sys.platform != "linux":
        return False  # Elsewhere the mode does not depend on access control lists.
    try:
        os.getxattr(path, "system.posix_acl_access", follow_symlinks=False)
    except OSError as error:
        # There is no list, the file system does not support them, or the file has just been deleted.
        return error.errno not in {errno.ENODATA, errno.ENOTSUP, errno.ENOENT}
    return True


def _may_be_roots(place: Path, found: os.stat_result) -> bool:
    """Return whether a parent folder may belong to root although a user namespace does not show that.

    A user namespace maps all other users to one id. In a folder that others can write to, it could be any of them.
    """
    return found.st_uid == _overflow_user() and not others_can_write(place.parent, place.parent.lstat())


def _is_own_group(group: int, user: int) -> bool:
    """Return whether a group is the private group of `user`."""
    if user == _overflow_user():
        return False
    try:
        owner, found = pwd.getpwuid(user), grp.getgrgid(group)
    except KeyError:
        return False
    # A group can be the primary group of many users without listing them, but then it is not named after one of them.
    return found.gr_gid == owner.pw_gid and found.gr_name == owner.pw_name and {*found.gr_mem} <= {owner.pw_name}


@cache
def _overflow_user() -> int | None:
    """Return the id that stands for all unmapped users inside a user namespace, None outside of one."""
    try:
        numbers = Path("/proc/self/uid_map").read_text().split()
        unknown = int(Path("/proc/sys/kernel/overflowuid").read_text())
    except (OSError, ValueError):
        return None
    return None if numbers == ["0", "0", "4294967295"] else unknown
