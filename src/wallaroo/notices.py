"""Notices: status lines for the user, throttled so that none floods the screen."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable

from wallaroo.sizes import plural

Notice = Callable[[str], None]
"""Shows the user one line about the state of the run."""


class Printed(str):
    """A notice with output printed by the application's own code: it is shown unchanged."""

    __slots__ = ()


_TELL_AGAIN_SECONDS = 60.0


def never_failing(notice: Notice) -> Notice:
    """Return `notice` wrapped to never raise: a closed output must not stop the run."""

    def tell(text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            notice(text)

    return tell


class ThrottledNotice:
    """Reports a recurring problem when it begins and when it ends, at most once a minute."""

    def __init__(self, notice: Notice) -> None:
        self.present = False
        self._notice = notice
        self._told = False
        self._told_at = float("-inf")
        self._untold = 0

    def begins(self, text: str) -> None:
        """Report `text`, unless the problem is already present or was reported recently."""
        if self.present:
            return
        self.present = True
        now = time.monotonic()
        self._told = now - self._told_at >= _TELL_AGAIN_SECONDS
        if self._told:
            again = f" ({plural(self._untold, 'more time')} since this was last told.)" if self._untold else ""
            self._notice(f"{text}{again}")
            self._told_at = now
            self._untold = 0
        else:
            self._untold += 1

    def is_over(self, text: str) -> None:
        """Report `text` if the problem is present and its beginning was reported."""
        if self.present and self._told:
            self._notice(text)
        self.present = False


TOLD_IN_FULL = 5
SUMMARY_SECONDS = 10.0
QUIET_SECONDS = 5.0


class ConnectionSummary:
    """Reports why connections to a source were closed: the first few in full, the rest in periodic summaries.

    After a period without closed connections, the first few are reported in full again.
    """

    def __init__(self, source: str, notice: Notice) -> None:
        self._source = source
        self._notice = notice
        self._in_full = 0
        self._more: Counter[str] = Counter()
        self._last = ""
        self._timer: asyncio.TimerHandle | None = None

    def tell(self, peer: str, kind: str, reason: str) -> None:
        """Report that the connection from `peer` was closed; `kind` is a short form of the reason, for the summary."""
        if self._in_full < TOLD_IN_FULL:
            self._in_full += 1
            self._notice(f"The connection from {peer} to {self._source!r} was closed{reason}")
        else:
            self._more[kind] += 1
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
        if self._more:
            self._sum_up()
            self._start_timer()
        else:
            self._in_full = 0

    def _sum_up(self) -> None:
        if not self._more:
            return
        number = self._more.total()
        kinds = ", ".join(f"{each:,} {kind}" for kind, each in self._more.most_common())
        self._notice(
            f"And {plural(number, 'more connection')} to {self._source!r} {'was' if number == 1 else 'were'} closed: "
            f"{kinds}. The last one: {self._last}"
        )
        self._more.clear()


class DebouncedNotice:
    """Reports when a condition begins, and that it has ended once it has not recurred for a while.

    A condition that ends and begins again continually, such as throttling a fast sender, is reported once.
    """

    def __init__(self, notice: Notice) -> None:
        self._notice = notice
        self._told = False
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, text: str) -> None:
        """Report the beginning, unless it was already reported and the end has not been."""
        self.close()
        if not self._told:
            self._told = True
            self._notice(text)

    def end(self, text: str) -> None:
        """Report the end, unless the condition begins again shortly."""
        if self._told and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(QUIET_SECONDS, self._over, text)

    def close(self) -> None:
        """Cancel the pending report of the end."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _over(self, text: str) -> None:
        self._timer = None
        self._told = False
        self._notice(text)
