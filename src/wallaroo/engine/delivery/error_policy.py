"""Decides, when user code fails, whether the application goes on: always, never, or while it is not too often."""

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
FEWEST_MESSAGES = 100
"""A share of fewer messages than these says nothing."""


class ErrorPolicy:
    """Judges the dead letters of block after block, and of the ends of epochs."""

    def __init__(self, on_error: OnError, clock: Callable[[], float] = time.monotonic) -> None:
        self._on_error = on_error
        self._clock = clock
        self._recent: deque[tuple[float, int, int, object]] = deque()
        """Of what came within the window: when, how many dead letters, how many messages, in what."""

    @property
    def counts_messages(self) -> bool:
        """Return whether it matters how many messages a block has."""
        return self._on_error.per == "%"

    def judge(self, letters: Sequence[Letter], messages: int, of: object) -> None:
        """Take note of the letters `of` a block, or an epoch's end, before they are kept; each counts once.

        Raises:
            ErrorPolicyError: The application is not to go on.
        """
        if self._on_error.text == GO_ON:
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
            if of_messages >= FEWEST_MESSAGES and failed > of_messages * self._on_error.most / 100:
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


_WAY_ON = (
    "Nothing of this counts as processed: when the program is mended, the same command goes on with these messages."
)


def _stop(text: str) -> NoReturn:
    raise ErrorPolicyError(text)


GO_ON = "dead-letter"
FAIL = "fail"

_RATE = re.compile(r"(\d+(?:\.\d+)?)(?:(%)|/(s|min|h))")


@dataclass(frozen=True)
class OnError:
    """What is to happen when user code fails.

    >>> OnError.parse("1%")
    OnError(text='1%', most=1.0, per='%')
    >>> OnError.parse("10/min")
    OnError(text='10/min', most=10.0, per='min')
    """

    text: str = GO_ON
    most: float = 0.0
    per: str = ""
    """The unit of `most`: `%`, or the time in which so many are allowed."""

    @classmethod
    def parse(cls, text: str) -> OnError:
        """Return what `text` says.

        Raises:
            ValueError: It says nothing that can be understood.
        """
        if text in {GO_ON, FAIL}:
            return cls(text)
        found = _RATE.fullmatch(text)
        if found is None or (found[2] and float(found[1]) >= 100):
            raise ValueError(
                f"{text!r} is none of these: dead-letter, fail, a share of the messages below 100% such as 1%, or a "
                "rate such as 100/s, 10/min or 5/h."
            )
        return cls(text, float(found[1]), found[2] or found[3])
