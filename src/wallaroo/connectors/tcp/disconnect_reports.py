"""Reports why connections to a source were closed, without a line for each of thousands."""

from __future__ import annotations

import asyncio
from collections import Counter

from wallaroo.notices import Notice, Throttle
from wallaroo.sizes import plural

REPORTED_IN_FULL = 5
SUMMARY_SECONDS = 10.0


class ClosedConnections:
    """Reports the first few in full, and the rest in periodic summaries.

    After a period without closed connections, the first few are reported in full again.
    """

    def __init__(self, source: str, notice: Notice) -> None:
        self._source = source
        self._notice = notice
        self._closed = Throttle(SUMMARY_SECONDS)
        self._kinds: Counter[str] = Counter()
        self._last = ""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, peer: str, kind: str, reason: str) -> None:
        """Report that the connection from `peer` was closed; `kind` is a short form of the reason, for the summary."""
        self._closed.add()
        if self._closed.total <= REPORTED_IN_FULL:
            self._closed.take()
            self._notice(f"The connection from {peer} to {self._source!r} was closed{reason}")
        else:
            self._kinds[kind] += 1
            self._last = f"{peer}{reason}"
        if self._timer is None:
            self._start_timer()

    def close(self) -> None:
        """Report what has not been reported yet."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._sum_up()

    def _start_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(SUMMARY_SECONDS, self._time_is_up)

    def _time_is_up(self) -> None:
        self._timer = None
        if self._closed.unreported:
            self._sum_up()
            self._start_timer()
        else:
            self._closed = Throttle(SUMMARY_SECONDS)

    def _sum_up(self) -> None:
        if not self._closed.unreported:
            return
        number = self._closed.take()
        kinds = ", ".join(f"{each:,} {kind}" for kind, each in self._kinds.most_common())
        self._notice(
            f"And {plural(number, 'more connection')} to {self._source!r} {'was' if number == 1 else 'were'} closed: "
            f"{kinds}. The last one: {self._last}"
        )
        self._kinds.clear()
