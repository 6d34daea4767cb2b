"""Captures what user code prints in a worker, to show it on the user's screen.

The streams are replaced once, before the user's modules are imported: a logging handler created during the import
keeps the stream it finds.
"""

from __future__ import annotations

import io
import sys
from typing import TextIO


class CapturedStream(io.TextIOBase):
    """A standard stream of a worker: writes to the task's buffer if there is one, otherwise to the worker's own log."""

    buffer_of_task: io.StringIO | None = None
    """The buffer of the current task, shared by both streams."""

    def __init__(self, original: TextIO) -> None:
        self._original = original

    def write(self, text: str) -> int:
        """Write `text`."""
        return (CapturedStream.buffer_of_task or self._original).write(text)

    def flush(self) -> None:
        """Flush the worker's log; a buffer needs no flush."""
        if CapturedStream.buffer_of_task is None:
            self._original.flush()

    def writable(self) -> bool:
        """Return true."""
        return True

    def fileno(self) -> int:
        """Return the underlying file descriptor, for callers that need one."""
        return self._original.fileno()


def catch_streams() -> None:
    """Replace the standard streams, once per process."""
    if not isinstance(sys.stdout, CapturedStream):
        sys.stdout = CapturedStream(sys.stdout)
        sys.stderr = CapturedStream(sys.stderr)
