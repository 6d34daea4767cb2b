"""Decides whether the application continues when user code fails: always, never, or up to a rate."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from wallaroo.engine.transport.dead_letter_record import Letter, described
from wallaroo.errors import ErrorPolicyError
from wallaroo.sizes import plural

_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}
_WINDOW_SECONDS = 60.0
MIN_MESSAGES = 100
"""A percentage of fewer messages than these is not meaningful."""


class ErrorPolicy:
    """Judges the dead letters of blocks, and of the ends of epochs."""

    def __init__(self, on_error: OnError, clock: Callable[[], float] = time.monotonic) -> None:
        self._on_error = on_error
        self._clock = clock
        self._recent: deque[tuple[float, int, int, object]] = deque()
        """For each entry in the window: time, number of dead letters, number of messages, and what they belong to."""

    @property
    def counts_messages(self) -> bool:
        """Return whether the number of messages in a block matters."""
        return self._on_error.per == "%"

    def judge(self, letters: Sequence[Letter], messages: int, of: object) -> None:
        """Count the letters `of` a block, or an epoch's end, before they are stored; each counts once.

        Raises:
            ErrorPolicyError: The application has to stop.
        """
        if self._on_error.text == DEAD_LETTER:
            return
        if self._on_error.text == FAIL:
            if letters:
                _stop(f"{described(letters[0])}\nThe application stops, as --on-error fail says. {_WAY_ON}")
            return
        now = self._clock()
        window = _SECONDS.get(self._on_error.per, _WINDOW_SECONDS)
        if self._recent and self._recent[-1][3] == of:
            self._recent.pop()
        self._recent.append((now, len(letters), messages, of))
        while self._recent[0][0] <= now - window:
            self._recent.popleft()
        if not letters:
            return
        failed = sum(each[1] for each in self._recent)
        of_messages = sum(each[2] for each in self._recent)
        if self.counts_messages:
            if of_messages >= MIN_MESSAGES and failed > of_messages * self._on_error.most / 100:
                share = f"{plural(failed, 'dead letter')} for {plural(of_messages, 'message')} in the last minute"
                self._stop_at(share, letters[-1])
        elif failed > self._on_error.most:
            unit = {"s": "second", "min": "minute", "h": "hour"}[self._on_error.per]
            self._stop_at(f"{plural(failed, 'dead letter')} in the last {unit}", letters[-1])

    def _stop_at(self, count: str, last: Letter) -> NoReturn:
        _stop(
            f"{described(last)}\nThe application stops: {count}, more than --on-error {self._on_error.text} allows. "
            f"{_WAY_ON}"
        )


_WAY_ON = "None of this counts as processed: once the program is fixed, the same command continues with these messages."


def _stop(text: str) -> NoReturn:
    raise ErrorPolicyError(text)


DEAD_LETTER = "dead-letter"
FAIL = "fail"

_RATE = re.compile(r"(\d+(?:\.\d+)?)(?:(%)|/(s|min|h))")


@dataclass(frozen=True)
class OnError:
    """What happens when user code fails.

    >>> OnError.parse("1%")
    OnError(text='1%', most=1.0, per='%')
    >>> OnError.parse("10/min")
    OnError(text='10/min', most=10.0, per='min')
    """

    text: str = DEAD_LETTER
    most: float = 0.0
    per: str = ""
    """The unit of `most`: `%`, or the time in which that many are allowed."""

    @classmethod
    def parse(cls, text: str) -> OnError:
        """Return the policy that `text` describes.

        Raises:
            ValueError: `text` is not a valid policy.
        """
        if text in {DEAD_LETTER, FAIL}:
            return cls(text)
        found = _RATE.fullmatch(text)
        if found is None or (found[2] and float(found[1]) >= 100):
            raise ValueError(
                f"{text!r} is none of these: dead-letter, fail, a share of the messages below 100% such as 1%, or a "
                "rate such as 100/s, 10/min or 5/h."
            )
        return cls(text, float(found[1]), found[2] or found[3])
