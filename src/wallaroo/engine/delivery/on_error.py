"""What `--on-error` can say. Without Spark, for the command line."""

from __future__ import annotations

import re
from dataclasses import dataclass

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
