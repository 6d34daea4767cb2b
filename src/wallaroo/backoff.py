"""Exponential backoff: pauses between attempts, each twice as long as the one before, up to a limit."""

from __future__ import annotations

import random

_MAX_DOUBLINGS = 100


class Backoff:
    """The pauses between attempts at one operation.

    >>> backoff = Backoff(0.5, longest=2.0)
    >>> [backoff.next() for _ in range(4)]
    [0.5, 1.0, 2.0, 2.0]
    >>> backoff.reset()
    >>> backoff.pause
    0.5
    """

    def __init__(self, first: float, longest: float, *, jitter: float = 0.0) -> None:
        """Start with a pause of `first` seconds; with `jitter` 0.3 each pause is up to 30 % shorter or longer."""
        self._first = first
        self._longest = longest
        self._jitter = jitter
        self.pause = first
        """The next pause, in seconds, without jitter."""

    def next(self) -> float:
        """Return how long to wait before the next attempt."""
        pause = self.pause
        self.pause = min(2 * pause, self._longest)
        # Clients that lost the same peer at the same moment must not all reconnect at the same moment.
        return pause * random.uniform(1 - self._jitter, 1 + self._jitter) if self._jitter else pause  # noqa: S311

    def nth(self, number: int) -> float:
        """Return the pause before the retry with this number, counted from one, without jitter.

        >>> [Backoff(1.0, longest=30.0).nth(number) for number in (1, 2, 3, 100_000)]
        [1.0, 2.0, 4.0, 30.0]
        """
        # 2.0 to the power of a large number overflows.
        return min(self._first * 2.0 ** min(number - 1, _MAX_DOUBLINGS), self._longest)

    def reset(self) -> None:
        """Start again with the first pause, after an attempt has succeeded."""
        self.pause = self._first
