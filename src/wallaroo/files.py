"""Files that are replaced as a whole, and room on the disk that is set aside."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_KEEP_SIZE = 1
_CANNOT = {errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
_TRIED = 1 << 20

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What the system says where there is no room: on the disk, within a quota, or within a limit on files."""


class Replacement:
    """A new file that takes the place of another when it is complete; see `replacement_of`."""

    def __init__(self, path: Path, mode: int) -> None:
        self._path = path
        self._mode = mode
        descriptor, self.temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        self.file = os.fdopen(descriptor, "wb")

    def write(self, content: bytes) -> None:
        """Write the next part of the new file."""
        self.file.write(content)

    def commit(self) -> None:
        """Put the new file in the place of the old one; it is on the disk when this returns."""
        self.file.flush()
        os.fchmod(self.file.fileno(), self._mode)
        os.fsync(self.file.fileno())
        Path(self.temporary).replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextmanager
def replacement_of(path: Path, mode: int = 0o600) -> Iterator[Replacement]:
    """Make a new file beside another for the time of a `with` block; what is not committed in it is deleted.

    What is at `path` is replaced and not written to: a link is not followed.
    """
    new = Replacement(path, mode)
    try:
        with new.file:
            yield new
    finally:
        Path(new.temporary).unlink(missing_ok=True)


def write_atomically(path: Path, content: str | bytes, mode: int = 0o600) -> None:
    """Replace a file so that a reader, or a crash, never sees half of it; it is on the disk when this returns.

    What was there is replaced and not written to: a link is not followed.
    """
    with replacement_of(path, mode) as new:
        new.write(content.encode() if isinstance(content, str) else content)
        new.commit()


def room_in(folder: Path) -> int:
    """Return how many bytes can still be written in `folder`; none where no file can be made any more.

    Where that cannot be found out, there is room: whoever writes finds out.
    """
    try:
        disk = os.statvfs(folder)
    except OSError:
        return sys.maxsize
    no_names_left = disk.f_files > 0 and disk.f_favail == 0
    return 0 if no_names_left else disk.f_bavail * disk.f_frsize


def takes_nothing(folder: Path) -> bool:
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
