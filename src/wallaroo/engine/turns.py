"""Shares a batch among the sources of an application.

Each gets the same part of what a batch may take. A message that is larger than that is taken all the same, for it never
gets smaller; but it has the batch to itself, since the memory is made for one such message and not for one of each
source.
"""

from __future__ import annotations

from collections.abc import Mapping

from wallaroo.ingress.log_reader import LogReader


class Turns:
    """Decides which messages of which source a batch takes."""

    def __init__(self, logs: Mapping[str, LogReader]) -> None:
        self._logs = logs
        self._order = list(logs)
        """Who has waited longest for a batch of its own comes first."""
        self._was_alone = False

    def shared(self, there: Mapping[str, tuple[int, int]], size: int) -> dict[str, int]:
        """Return how far to take what is there of each source: from where to where the batch may go at the most."""
        if len(there) < 2:
            return {source: self._logs[source].limit(begin, size, end) for source, (begin, end) in there.items()}
        share = size // len(there)
        ends = {source: self._logs[source].limit(begin, share, end) for source, (begin, end) in there.items()}
        large = {source for source, (begin, _) in there.items() if self._size(source, begin, ends[source]) > share}
        small = {source: end for source, end in ends.items() if source not in large}
        if not large or (small and self._was_alone):
            self._was_alone = False
            return small
        chosen = next(source for source in self._order if source in large)
        self._order.remove(chosen)
        self._order.append(chosen)
        self._was_alone = True
        return {chosen: ends[chosen]}

    def _size(self, source: str, begin: int, end: int) -> int:
        log = self._logs[source]
        return sum(log.bytes_between(*present) for present in log.present(begin, end))
