"""Who else could have a hand in a file: what is run, or read as code, is this user's or the system's, nobody else's.

A file is as safe as the way to it: who can write to a folder can put something else in the place of what is in there.
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

_SYSTEM = 0
_MOST_STEPS = 1000
"""Links can lead in circles."""


def stranger(path: Path, user: int | None = None) -> str | None:
    """Return in words who else could change what is at `path`, None if only `user`, and the system, can.

    Every folder on the way counts, and every link. In a folder such as /tmp, where nobody can rename what belongs to
    others, only what belongs to this user counts.

    Raises:
        OSError: There is nothing at `path`, or it cannot be looked at.
    """
    place = Path("/")
    rest = deque(Path(os.path.abspath(path)).parts[1:])  # noqa: PTH100 - links are looked at one by one
    for _ in range(_MOST_STEPS):
        found = place.lstat()
        if owned_by_another(found, user) and not (rest and _may_be_the_systems(place, found)):
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
    """Tell whether a file belongs neither to `user` nor to the system."""
    return found.st_uid not in {os.getuid() if user is None else user, _SYSTEM}


def others_can_write(path: Path | str, found: os.stat_result) -> bool:
    """Tell whether others than its owner can write to the file or folder at `path`.

    Many systems give each user a group of their own, and let that group write by default: nobody else is in it.
    """
    if found.st_mode & stat.S_IWOTH:
        return True
    if not found.st_mode & stat.S_IWGRP:
        return False
    return not _is_own_group(found.st_gid, found.st_uid) or _lets_others_in(path)


def _lets_others_in(path: Path | str) -> bool:
    """Tell whether a list of users goes with a file: the group's mode is then what anybody on that list may have."""
    if sys.platform != "linux":
        return False  # Modes have nothing to do with such lists there.
    try:
        os.getxattr(path, "system.posix_acl_access", follow_symlinks=False)
    except OSError as error:
        # There is none, the disk has none, or the file has been deleted meanwhile.
        return error.errno not in {errno.ENODATA, errno.ENOTSUP, errno.ENOENT}
    return True


def _may_be_the_systems(place: Path, found: os.stat_result) -> bool:
    """Tell whether something on the way belongs to the system, though a sandbox does not show that.

    It shows all other users as one. What somebody has put into a folder that is open to others could be any user's.
    """
    return found.st_uid == _unknown_user() and not others_can_write(place.parent, place.parent.lstat())


def _is_own_group(group: int, user: int) -> bool:
    """Tell whether nobody but `user` is in a group."""
    if user == _unknown_user():
        return False
    try:
        owner, found = pwd.getpwuid(user), grp.getgrgid(group)
    except KeyError:
        return False
    # A group can be that of many users without listing one of them, but it does not have the name of one then.
    return found.gr_gid == owner.pw_gid and found.gr_name == owner.pw_name and {*found.gr_mem} <= {owner.pw_name}


@cache
def _unknown_user() -> int | None:
    """Return the number that stands for all other users where a sandbox shows few numbers only, None elsewhere."""
    try:
        numbers = Path("/proc/self/uid_map").read_text().split()
        unknown = int(Path("/proc/sys/kernel/overflowuid").read_text())
    except (OSError, ValueError):
        return None
    return None if numbers == ["0", "0", "4294967295"] else unknown
