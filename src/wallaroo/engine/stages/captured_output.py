"""What user code prints in a worker, caught for the user's screen.

The streams are put in place once, before the user's modules are imported: a logging handler that is made then keeps the
stream it found for good.
"""

from __future__ import annotations

import io
import sys
from typing import TextIO


class CapturedStream(io.TextIOBase):
    """A standard stream of a worker: writes into a buffer while there is one, and to the worker's own log otherwise."""

    buffer_of_task: io.StringIO | None = None
    """The buffer of the task at hand, the same for both streams."""

    def __init__(self, original: TextIO) -> None:
        self._original = original

    def write(self, text: str) -> int:
        """Write `text`."""
        return (CapturedStream.buffer_of_task or self._original).write(text)

    def flush(self) -> None:
        """Write what waits, where that means anything."""
        if CapturedStream.buffer_of_task is None:
            self._original.flush()

    def writable(self) -> bool:
        """Return true."""
        return True

    def fileno(self) -> int:
        """Return the file that lies behind, for what insists on one."""
        return self._original.fileno()


def catch_streams() -> None:
    """Put the streams in place, once in a process."""
    if not isinstance(sys.stdout, CapturedStream):
        sys.stdout = CapturedStream(sys.stdout)
        sys.stderr = CapturedStream(sys.stderr)
