"""Telling people about troubles, without telling them again and again."""

from __future__ import annotations

import time

from wallaroo.connectors.base import Notice

_TELL_AGAIN_SECONDS = 60.0


class Trouble:
    """One kind of trouble that comes and goes: told when it begins and when it is over, at most once a minute."""

    def __init__(self, notice: Notice) -> None:
        self.present = False
        self._notice = notice
        self._told = False
        self._told_at = float("-inf")
        self._untold = 0

    def begins(self, text: str) -> None:
        """Say `text`, unless the trouble is known already or was told a moment ago."""
        if self.present:
            return
        self.present = True
        now = time.monotonic()
        self._told = now - self._told_at >= _TELL_AGAIN_SECONDS
        if self._told:
            times = "time" if self._untold == 1 else "times"
            self._notice(f"{text} ({self._untold:,} more {times} since this was last told.)" if self._untold else text)
            self._told_at = now
            self._untold = 0
        else:
            self._untold += 1

    def is_over(self, text: str) -> None:
        """Say `text` if the trouble is there and its beginning was told."""
        if self.present and self._told:
            self._notice(text)
        self.present = False
