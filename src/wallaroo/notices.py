"""Notices: lines for the user about the state of the run, throttled so that none floods the screen.

Everything that recurs is counted by a `Throttle`, which decides when it is reported again. The text is up to the code
that counts: a summary of closed connections reads differently from one of failed messages. A condition that begins and
ends, such as a missing receiver, is a `Condition`: a throttle for its beginnings, and a report of its end.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from time import monotonic

from wallaroo.sizes import plural

Notice = Callable[[str], None]
"""Shows the user one line about the state of the run."""

REPORT_AGAIN_SECONDS = 60.0
"""How long after a report the same thing is not reported again."""
QUIET_SECONDS = 5.0
"""How long a condition that comes and goes has to be absent to be over."""


class Printed(str):
    """A notice with output printed by the application's own code: it is shown unchanged."""

    __slots__ = ()


def never_failing(notice: Notice) -> Notice:
    """Return `notice` wrapped to never raise: a closed output must not stop the run."""

    def report(text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            notice(text)

    return report


class Throttle:
    """Counts what recurs, and limits how often it is reported: at most once in `interval` seconds.

    >>> failures = Throttle(interval=60.0)
    >>> failures.add()
    >>> failures.is_due, failures.take()
    (True, 1)
    >>> failures.add(3)
    >>> failures.is_due, failures.unreported
    (False, 3)
    """

    def __init__(self, interval: float) -> None:
        self.total = 0
        self.unreported = 0
        self._interval = interval
        self._reported_at = float("-inf")

    def add(self, number: int = 1) -> None:
        """Count `number` more."""
        self.total += number
        self.unreported += number

    @property
    def is_due(self) -> bool:
        """Whether there is something to report, and the last report is long enough ago."""
        return self.unreported > 0 and monotonic() - self._reported_at >= self._interval

    def take(self) -> int:
        """Return how many have not been reported; from now on they have."""
        number = self.unreported
        self.unreported = 0
        self._reported_at = monotonic()
        return number


class Condition:
    """Reports when a condition begins and when it ends.

    Args:
        notice: Shows the user a line.
        interval: Beginnings are reported at most once in so many seconds; the others are counted, and their ends are
            not reported.
        quiet: An end is reported if the condition does not begin again within so many seconds, and otherwise neither
            is. Anything but 0 needs a running event loop.
    """

    def __init__(self, notice: Notice, *, interval: float = 0.0, quiet: float = 0.0) -> None:
        self.present = False
        self._notice = notice
        self._text = ""
        self._beginnings = Throttle(interval)
        self._quiet = quiet
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, text: str) -> None:
        """Report `text`, unless the condition is present or was reported recently."""
        self.close()
        if self.present:
            return
        self.present = True
        self._text = text
        self._beginnings.add()
        if self._beginnings.is_due:
            others = self._beginnings.take() - 1
            self._notice(f"{text} ({plural(others, 'more time')} since the last report.)" if others else text)

    def begin_or_change(self, text: str) -> None:
        """As `begin`, but also report `text` if the condition is present with another text."""
        if self.present and text != self._text:
            self._text = text
            self._notice(text)
        else:
            self.begin(text)

    def end(self, text: str) -> None:
        """Report `text` if the condition is present and its beginning was reported."""
        if not self.present or self._timer is not None:
            return
        if self._quiet:
            self._timer = asyncio.get_running_loop().call_later(self._quiet, self._over, text)
        else:
            self._over(text)

    def close(self) -> None:
        """Do not report an end that is waiting to be reported."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _over(self, text: str) -> None:
        self._timer = None
        self.present = False
        if not self._beginnings.unreported:
            self._notice(text)
