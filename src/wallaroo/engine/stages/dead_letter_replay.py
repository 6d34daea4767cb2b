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
from wallaroo.engine.transport.dead_letter_record import Letter, failed_again, key_in, message_in
from wallaroo.topology.model import Pipeline


class NoPlaceError(Exception):
    """The step at which a dead letter failed is no longer in the application."""


class ReplayLine:
    """Processes replayed letters: the log holds the records as JSON."""

    def __init__(self, plan: Plan, outbox: Outbox) -> None:
        self._plan = plan
        self._outbox = outbox
        self._entries: dict[tuple[str, str, str], Run] = {}
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
            self._outbox.keep(failed_again(letter, error, self.origin(0)))
        else:
            entry((message,))

    def origin(self, _position: int) -> dict[str, Any]:
        """Return the original origin of the current letter."""
        known = ("source", "position", "positions")
        return {
            **{name: value for name, value in self._letter.items() if name in known},
            "replay_of": self._letter["id"],
        }

    def _entry(self, letter: Letter) -> Run:
        """Return the loop that starts where the letter failed."""
        where = (letter["pipeline"], letter["step"], letter["place"])
        if where not in self._entries:
            self._entries[where] = self._find(*where)
        return self._entries[where]

    def _find(self, pipeline_name: str, step: str, place: str) -> Run:
        pipelines = [p for p in self._plan.application.pipelines if p.name == pipeline_name]
        if not pipelines:
            raise NoPlaceError(f"the application has no pipeline {pipeline_name!r} any more")
        kind, _, counted = place.partition(" ")
        index = int(counted or 1) - 1
        pipeline = pipelines[0]
        if kind == "decoder":
            return source_line(self._plan, self._outbox, pipeline)
        if kind == "choose":
            if index >= len(pipeline.choosers):
                raise NoPlaceError(f"pipeline {pipeline_name!r} has no choose number {index + 1} any more")
            return to_chooser(self._plan, self._outbox, pipeline, pipeline.choosers[index])
        if kind == "encoder":
            if index >= len(pipeline.sinks):
                raise NoPlaceError(f"pipeline {pipeline_name!r} has no sink number {index + 1} any more")
            return to_sink(self._plan, self._outbox, pipeline, index)
        return line_from(self._plan, self._outbox, pipeline, _index_of(pipeline, step, index))


def _index_of(pipeline: Pipeline, step: str, index: int) -> int:
    """Return the current index of a step: the old one, or, if steps were added or removed, the first of its name."""
    names = [each.name for each in pipeline.steps]
    if names[index : index + 1] == [step]:
        return index
    if step not in names:
        raise NoPlaceError(f"pipeline {pipeline.name!r} has no step {step!r} any more")
    return names.index(step)
