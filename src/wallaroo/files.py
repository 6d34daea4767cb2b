"""Atomic replacement of files, free disk space, and preallocation."""

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
_UNSUPPORTED = {errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
_PROBE_BYTES = 1 << 20

DISK_FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""The error numbers for no free space: on the disk, within a quota, or within a limit on file sizes."""


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
    """Replace a file atomically; it is durable when this returns.

    An existing file is replaced, not written to: a symbolic link is not followed.
    """
    with replacement_of(path, mode) as new:
        new.write(content.encode() if isinstance(content, str) else content)
        new.commit()


def free_space(folder: Path) -> int:
    """Return how many bytes can still be written in `folder`; 0 if no inodes are left.

    If that cannot be determined, space is assumed to be available: a write will report it otherwise.
    """
    try:
        disk = os.statvfs(folder)
    except OSError:
        return sys.maxsize
    no_names_left = disk.f_files > 0 and disk.f_favail == 0
    return 0 if no_names_left else disk.f_bavail * disk.f_frsize


def is_full(folder: Path) -> bool:
    """Return whether there is no space for a small file in `folder`, by trying to write one."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())  # Some file systems report a full disk only here.
    except OSError as error:
        return error.errno in DISK_FULL_ERRNOS
    return False


def reserve(file: int, size: int) -> None:
    """Preallocate space for a file to grow up to `size` bytes, so that writing them cannot fail on a full disk.

    The file size does not change. Does nothing where the system or the file system has no preallocation.

    Raises:
        OSError: There is not enough space.
    """
    fallocate = getattr(ctypes.CDLL(None, use_errno=True), "fallocate64", None)
    if fallocate is None:
        return
    long = ctypes.c_int64
    if fallocate(file, _KEEP_SIZE, long(0), long(size)) and (number := ctypes.get_errno()) not in _UNSUPPORTED:
        raise OSError(number, os.strerror(number))
