"""Feeds replayed dead letters back to the steps that failed.

They arrive through a log of their own, like the messages of any source, so each is processed once. Each enters at its
step and does not pass the decoder again: the other outputs of the same input have already been delivered.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from wallaroo.engine.plan import Plan
from wallaroo.engine.stages.outbox import USER_ERRORS, Outbox
from wallaroo.engine.stages.steps import Run, line_from, source_line, to_chooser, to_sink
from wallaroo.engine.transport.dead_letter_record import DECODED, Letter, failed_again, key_in, message_in
from wallaroo.topology.model import Pipeline
from wallaroo.topology.step_identity import CHOOSE, ENCODER, NoSpotError, Spot, find_numbered_spot, find_spot


class NoPlaceError(Exception):
    """The step at which a dead letter failed is no longer in the application, or not surely the same."""


class ReplayLine:
    """Processes replayed letters: the log holds the records as JSON."""

    def __init__(self, plan: Plan, outbox: Outbox) -> None:
        self._plan = plan
        self._outbox = outbox
        self._entries: dict[str, Run] = {}
        self._letter: Letter = {}

    def run(self, records: Iterable[bytes]) -> None:
        """Feed letters back to their steps, until the outbox is full."""
        for record in records:
            self._put_back(record)
            if self._outbox.is_full:
                break

    def _put_back(self, record: bytes) -> None:
        letter = self._letter = json.loads(record)
        try:
            entry = self._entry(letter)
            message = message_in(letter, self._plan.serializer)
            self._outbox.current.key = key_in(letter)
        except USER_ERRORS as error:
            self._outbox.keep(failed_again(letter, error, self.origin(0, 0)))
        else:
            entry((message,))

    def origin(self, _position: int, _lane: int) -> dict[str, Any]:
        """Return the original origin of the current letter."""
        known = ("source", "partition", "position", "positions", "partitions")
        return {
            **{name: value for name, value in self._letter.items() if name in known},
            "replay_of": self._letter["id"],
        }

    def _entry(self, letter: Letter) -> Run:
        """Return the loop that starts where the letter failed."""
        where = json.dumps([letter["pipeline"], letter["step"], letter["place"], letter.get("path")])
        if where not in self._entries:
            self._entries[where] = self._find(letter)
        return self._entries[where]

    def _find(self, letter: Letter) -> Run:
        name, place = letter["pipeline"], letter["place"]
        pipeline = next((each for each in self._plan.application.pipelines if each.name == name), None)
        if pipeline is None:
            raise NoPlaceError(f"the application has no pipeline {name!r} any more")
        if place == DECODED:
            return source_line(self._plan, self._outbox, pipeline)
        spot = _spot(pipeline, letter)
        if spot.kind == CHOOSE:
            return to_chooser(self._plan, self._outbox, pipeline, pipeline.choosers[spot.number])
        start = to_sink if spot.kind == ENCODER else line_from
        return start(self._plan, self._outbox, pipeline, spot.number)


def _spot(pipeline: Pipeline, letter: Letter) -> Spot:
    """Return the place of a letter in the pipeline as it is now."""
    kind, _, counted = letter["place"].partition(" ")
    path = letter.get("path")
    try:
        if path is None:
            return find_numbered_spot(pipeline, kind, int(counted) - 1, letter["step"])
        return find_spot(pipeline, kind, path)
    except NoSpotError as error:
        raise NoPlaceError(str(error)) from None
