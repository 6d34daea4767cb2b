"""Files that are replaced as a whole, and room on the disk that is set aside."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import tempfile
from pathlib import Path

_KEEP_SIZE = 1
_CANNOT = {errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
_TRIED = 1 << 20

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What the system says where there is no room: on the disk, within a quota, or within a limit on files."""


def write_atomically(path: Path, content: str | bytes, mode: int = 0o600) -> None:
    """Replace a file so that a reader, or a crash, never sees half of it; it is on the disk when this returns.

    What was there is replaced and not written to: a link is not followed.
    """
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            os.fchmod(descriptor, mode)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def free_space(folder: Path) -> int:
    """Return how many bytes can still be written in `folder`; none where no file can be made any more.

    Where that cannot be found out, there is room: whoever writes finds out.
    """
    try:
        disk = os.statvfs(folder)
    except OSError:
        return sys.maxsize
    no_names_left = disk.f_files > 0 and disk.f_favail == 0
    return 0 if no_names_left else disk.f_bavail * disk.f_frsize


def is_full(folder: Path) -> bool:
    """Tell whether there is no room to write a small file in `folder`, which is found out by writing one."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_TRIED))
            file.flush()
            os.fsync(file.fileno())  # Some disks find out that late.
    except OSError as error:
        return error.errno in NO_ROOM
    return False


def reserve(file: int, size: int) -> None:
    """Set room aside for a file to grow up to `size` bytes, so that writing these cannot fail on a full disk.

    The file does not change. Where the system or the disk cannot do that, nothing is set aside.

    Raises:
        OSError: There is no room.
    """
    fallocate = getattr(ctypes.CDLL(None, use_errno=True), "fallocate64", None)
    if fallocate is None:
        return
    long = ctypes.c_int64
    if fallocate(file, _KEEP_SIZE, long(0), long(size)) and (number := ctypes.get_errno()) not in _CANNOT:
        raise OSError(number, os.strerror(number))
