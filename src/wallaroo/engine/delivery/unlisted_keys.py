"""Counts states that were made for keys that the application had not listed, and reports them with throttling."""

from __future__ import annotations

import json
import threading

from wallaroo.connectors.output_block import Body
from wallaroo.notices import REPORT_AGAIN_SECONDS, Notice, Throttle
from wallaroo.sizes import plural


class UnlistedKeys:
    """Reports for each state how many objects were made for such keys.

    The first are reported at once. After that a state is reported again when there are twice as many, at most once a
    minute: a program with ever new keys must not fill the screen.
    """

    def __init__(self, notice: Notice) -> None:
        self._notice = notice
        self._made: dict[str, _Made] = {}
        self._adding = threading.Lock()

    def add(self, body: Body) -> None:
        """Add the content of a chunk: by state, how many were made, and one of the keys."""
        with self._adding:
            for state, (number, example) in json.loads(bytes(body)).items():
                self._made.setdefault(state, _Made(example)).add(number)

    def sum_up(self) -> None:
        """Report what is due."""
        with self._adding:
            for state, made in self._made.items():
                if made.is_due and made.have_doubled:
                    self._report(state, made)

    def close(self) -> None:
        """Report what has not been reported yet."""
        with self._adding:
            for state, made in self._made.items():
                if made.unreported:
                    self._report(state, made)

    def _report(self, state: str, made: _Made) -> None:
        is_first = made.take() == made.total
        states = plural(made.total, "state")
        text = f"State {state!r}: made {states} for keys that were not listed, such as {made.example}, in this run."
        remedy = " With --strict-keys, their messages become dead letters instead."
        self._notice(text + remedy if is_first else text)


class _Made(Throttle):
    """How many objects of a state were made, and for which key, for example."""

    def __init__(self, example: str) -> None:
        super().__init__(REPORT_AGAIN_SECONDS)
        self.example = example

    @property
    def have_doubled(self) -> bool:
        return self.total >= 2 * (self.total - self.unreported)
