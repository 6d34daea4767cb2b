"""States that were made for keys that the application had not listed: counted, and told now and then."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass

from wallaroo.connectors.output_block import Body
from wallaroo.notices import Notice

_TELL_AGAIN_SECONDS = 60.0


@dataclass
class _Made:
    number: int
    example: str
    told: int = 0
    told_at: float = float("-inf")


class UnlistedKeys:
    """Tells of each state how many objects were made for such keys.

    The first are told at once. After that a state is told again when there are twice as many, once a minute at the
    most: a program with ever new keys is not to fill the screen.
    """

    def __init__(self, notice: Notice) -> None:
        self._notice = notice
        self._made: dict[str, _Made] = {}
        self._adding = threading.Lock()

    def add(self, body: Body) -> None:
        """Take the content of a chunk: by state, how many were made, and one of the keys."""
        with self._adding:
            for state, (number, example) in json.loads(bytes(body)).items():
                self._made.setdefault(state, _Made(0, example)).number += number

    def sum_up(self) -> None:
        """Tell what is due."""
        now = time.monotonic()
        with self._adding:
            for state, made in self._made.items():
                if made.number >= max(1, 2 * made.told) and now - made.told_at >= _TELL_AGAIN_SECONDS:
                    made.told_at = now
                    self._tell(state, made)

    def close(self) -> None:
        """Tell what has not been told yet."""
        with self._adding:
            for state, made in self._made.items():
                if made.number > made.told:
                    self._tell(state, made)

    def _tell(self, state: str, made: _Made) -> None:
        states = "1 state" if made.number == 1 else f"{made.number:,} states"
        text = f"State {state!r}: made {states} for keys that were not listed, such as {made.example}, in this run."
        remedy = " With --strict-keys, their messages become dead letters instead."
        self._notice(text if made.told else text + remedy)
        made.told = made.number
