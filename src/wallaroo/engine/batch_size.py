"""How much of its logs an application takes at a time.

While it keeps up, a batch is whatever has come in, and answers are quick. When there is a backlog, each batch costs
something however small it is, so it should be large; but not so large that it takes minutes, which memory, a stop and
whoever waits for an answer would all feel. How long a byte takes depends on the user's code. So time decides.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import sqrt

_WANTED_SECONDS = 3.0
_LONGEST_SECONDS = 30.0
_FIRST_BYTES = 4 << 20
_LEAST_BYTES = 16 << 10
_FASTEST_CHANGE = 4.0
_TELLING_CHANGE = 0.8
"""How much smaller a batch must be to tell whether that makes it shorter."""


class BatchSize:
    """Follows the batches of a run.

    >>> now = [0.0]
    >>> size = BatchSize(64 << 20, clock=lambda: now[0])
    >>> size.bytes >> 20
    4
    >>> size.begins(full=True)
    >>> now[0] += 0.5
    >>> size.ends()
    >>> size.bytes >> 20
    16
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._began: float | None = None
        self._larger: tuple[int, float] = (0, 0.0)
        """A batch before that was larger, and how long it took."""
        self.bytes = min(_FIRST_BYTES, most)
        """How much the next batch may take."""

    def begins(self, *, full: bool) -> None:
        """Take note that a batch begins; it is full when there was more than it might take."""
        self._began = self._clock() if full else None

    def ends(self) -> None:
        """Take note that the batch is done."""
        if self._began is None:
            return
        took = max(self._clock() - self._began, 0.001)
        self._began = None
        change = min(max(_WANTED_SECONDS / took, 1 / _FASTEST_CHANGE), _FASTEST_CHANGE)
        size = self._shrunk_in_vain_from(took) or self.bytes * change
        self.bytes = int(min(max(size, _LEAST_BYTES), self._most))

    def _shrunk_in_vain_from(self, took: float) -> float:
        """Return a larger size where a smaller one was of no use: a receiver takes its time for each batch, say."""
        size, before = self._larger
        if size * _TELLING_CHANGE < self.bytes < size:
            return 0.0
        self._larger = self.bytes, took
        # If it were the size alone, the time would have changed as much; if the size did not matter, not at all.
        if self.bytes < size and took > before * sqrt(self.bytes / size):
            return size * min(2.0, _LONGEST_SECONDS / before)
        return 0.0
