"""Identifies where a message failed by name and surrounding steps, so that a changed program can find it.

A step may be in several branches, and a sink need not have a name. So a place is recorded with its name, the names of
the steps before it, and the names of the steps and sinks after it, together with how much of that was needed to
distinguish it from all others: this part must not have changed. If the steps before it were needed, those of the other
places of its name must not have changed either, as another one may now be in its position; otherwise what comes after
it must be the same as well. Ambiguous matches are rejected.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from wallaroo.connectors.registry import is_sink, sink_kind
from wallaroo.introspection import bare_label
from wallaroo.topology.model import Pipeline, SinkGroup, Target, sink_name

STEP, CHOOSE, ENCODER = "step", "choose", "encoder"
"""The kinds of places, apart from the decoder."""


Sides = tuple[list[str], list[str]]


@dataclass(frozen=True)
class Spot:
    """A place in a pipeline: the `number`-th step, `choose` or sink, counted from zero."""

    kind: str
    number: int
    name: str
    """Of the step or the sink; empty if it has none."""
    before: tuple[str, ...]
    """The names of the steps that lead to it."""
    after: tuple[str, ...]
    """The names of the steps and sinks that it leads to; for a sink, its address and encoder."""

    @cached_property
    def sides(self) -> Sides:
        """Return the names before and after it in an order of their own: branches may be merged in another one."""
        return sorted(self.before), sorted(self.after)


class NoSpotError(Exception):
    """No place in the pipeline matches with certainty."""


@lru_cache(maxsize=64)
def spots_of(pipeline: Pipeline) -> tuple[Spot, ...]:
    """Return all places of a pipeline after its decoder."""
    spots = [
        Spot(STEP, index, step.name, _before(pipeline, index), _after(pipeline, index))
        for index, step in enumerate(pipeline.steps)
    ]
    spots += [
        Spot(CHOOSE, number, "", _before(pipeline, group), _after(pipeline, group))
        for number, group in enumerate(pipeline.choosers)
    ]
    spots += [
        Spot(ENCODER, number, sink_name(sink) or "", _before(pipeline, pipeline.group_of(number)), (_shown(sink),))
        for number, sink in enumerate(pipeline.sinks)
    ]
    return tuple(spots)


def spot_of(pipeline: Pipeline, kind: str, number: int) -> Spot:
    """Return the place of the `number`-th step, `choose` or sink, counted from zero."""
    return next(spot for spot in spots_of(pipeline) if (spot.kind, spot.number) == (kind, number))


def _before(pipeline: Pipeline, target: Target) -> tuple[str, ...]:
    return tuple(pipeline.steps[index].name for index in pipeline.before(target))


def _after(pipeline: Pipeline, target: Target) -> tuple[str, ...]:
    reached: set[Target] = {target}
    for index in range(target, len(pipeline.steps)) if isinstance(target, int) else ():
        if index in reached:
            reached.update(pipeline.after(index))
    steps = sorted(each for each in reached - {target} if isinstance(each, int))
    numbers = sorted(number for each in reached if isinstance(each, SinkGroup) for number in each.sinks)
    sinks = [pipeline.sinks[number] for number in numbers]
    return (*(pipeline.steps[index].name for index in steps), *(sink_name(sink) or _shown(sink) for sink in sinks))


def _shown(sink: Any) -> str:
    """Return the address and the encoder of a sink."""
    return ", ".join(sink_kind(sink).shown(sink)) if is_sink(sink) else bare_label(sink.encoder)


def path_of(pipeline: Pipeline, spot: Spot) -> dict[str, Any]:
    """Return the data by which `find_spot` finds a place; it can be written as JSON."""
    path: dict[str, Any] = {
        "name": spot.name,
        "before": list(spot.before),
        "after": list(spot.after),
        "approaches": _approaches(pipeline, spot.kind, spot.name),
    }
    search = _Search(pipeline, spot.kind, path)
    for level, fitting in _LEVELS.items():
        if len(fitting(search)) == 1:
            return {**path, "known_by": level}
    same = search.with_same_sides()
    return {**path, "known_by": _ORDER, "order": [same.index(spot), len(same)]}


def find_spot(pipeline: Pipeline, kind: str, path: Mapping[str, Any]) -> Spot:
    """Return the place that `path_of` named, perhaps in an earlier version of the program.

    Raises:
        NoSpotError: None can be matched with certainty.
    """
    search = _Search(pipeline, kind, path)
    what = _called(kind, path["name"])
    if not search.alike:
        raise NoSpotError(f"pipeline {pipeline.name!r} has no {what} any more")
    known_by = path["known_by"]
    levels = list(_LEVELS)
    for level in levels[levels.index(known_by) :] if known_by in levels else ():
        if len(found := _LEVELS[level](search)) == 1:
            return found[0]
    if known_by == _ORDER:
        number, count = path["order"]
        # They are alike in all respects, so the order decides, as long as there are as many as before.
        same = search.with_same_sides()
        if len(same) == count:
            return same[int(number)]
    remedy = ". For the next time, give each sink a name: it is found by that" if kind == ENCODER else ""
    raise NoSpotError(
        f"pipeline {pipeline.name!r} has changed, and the {what} of this message, which was "
        f"{_whereabouts(kind, path)}, cannot be matched with certainty. Replay the message with the earlier program, "
        f"or take it from the letter (`wallaroo dead-letters show`), and send it again{remedy}"
    )


def find_numbered_spot(pipeline: Pipeline, kind: str, number: int, name: str) -> Spot:
    """Return a place by its number, counted from zero, and, for a step, its name.

    Raises:
        NoSpotError: There is none, or it cannot be matched with certainty.
    """
    named = name if kind == STEP else ""
    alike = _Search(pipeline, kind, {"name": named}).alike
    if not alike or (kind != STEP and number >= len(alike)):
        counted = "" if kind == STEP else f" number {number + 1}"
        raise NoSpotError(f"pipeline {pipeline.name!r} has no {_called(kind, named)}{counted} any more")
    if len(alike) == 1 and (alike[0].number == number or not pipeline.is_branched):
        return alike[0]
    raise NoSpotError(
        f"an earlier release has written this letter, with only the number of its {_KINDS[kind]}, {number + 1}, which "
        f"cannot be matched with certainty in pipeline {pipeline.name!r}. Take the message from the letter "
        "(`wallaroo dead-letters show`), and send it again"
    )


def _alike(pipeline: Pipeline, kind: str, name: str) -> list[Spot]:
    # A sink without a name could be any sink: it may have been given a name since.
    return [spot for spot in spots_of(pipeline) if spot.kind == kind and (not name or spot.name == name)]


@lru_cache(maxsize=1024)
def _approaches(pipeline: Pipeline, kind: str, name: str) -> int:
    """Return a checksum of what leads to each of the places of that kind and name."""
    return zlib.crc32(repr(sorted(spot.sides[0] for spot in _alike(pipeline, kind, name))).encode())


class _Search:
    """The places of a pipeline that fit a path."""

    def __init__(self, pipeline: Pipeline, kind: str, path: Mapping[str, Any]) -> None:
        self._pipeline = pipeline
        self._kind = kind
        self._path = path
        self.alike = _alike(pipeline, kind, path["name"])

    def with_name_of_sink(self) -> list[Spot]:
        # Sinks of one pipeline that have the same name are the same sink.
        return self.alike[:1] if self._kind == ENCODER and self._path["name"] else []

    def in_a_line(self) -> list[Spot]:
        return [] if self._pipeline.is_branched else self.alike

    def with_same_side(self) -> list[Spot]:
        # Even the only one of its name may have been moved to another branch since.
        return [spot for spot in self.alike if len(self.alike) == 1 and (self._before(spot) or self._after(spot))]

    def with_same_before(self) -> list[Spot]:
        # If any of the others was changed, removed or added, it may now be in the position of this one.
        is_unchanged = self._path.get("approaches") == _approaches(self._pipeline, self._kind, self._path["name"])
        return [spot for spot in self.alike if self._before(spot)] if is_unchanged else []

    def with_same_sides(self) -> list[Spot]:
        return [spot for spot in self.alike if self._before(spot) and self._after(spot)]

    def _before(self, spot: Spot) -> bool:
        return spot.sides[0] == self._sides[0]

    def _after(self, spot: Spot) -> bool:
        return spot.sides[1] == self._sides[1]

    @cached_property
    def _sides(self) -> Sides:
        return sorted(self._path["before"]), sorted(self._path["after"])


_LEVELS: dict[str, Callable[[_Search], list[Spot]]] = {
    "sink": _Search.with_name_of_sink,
    "line": _Search.in_a_line,
    "name": _Search.with_same_side,
    "before": _Search.with_same_before,
    "after": _Search.with_same_sides,
}
"""What may identify a place: the first that a single place fits. Each one requires more than those before it."""
_ORDER = "order"
"""The place is one of several that are alike in all respects."""

_KINDS = {STEP: "step", CHOOSE: "choose", ENCODER: "sink"}


def _called(kind: str, name: str) -> str:
    return f"{_KINDS[kind]} {name!r}" if name else _KINDS[kind]


def _whereabouts(kind: str, path: Mapping[str, Any]) -> str:
    """Return where a place was, as text.

    >>> _whereabouts(STEP, {"before": ["parse", "clean"], "after": ["alarms"]})
    "after 'parse', 'clean' and before 'alarms'"
    >>> _whereabouts(ENCODER, {"before": [], "after": ["TCP 127.0.0.1:7002, encoded by encode"]})
    "directly after the decoder, 'TCP 127.0.0.1:7002, encoded by encode'"
    """
    before = f"after {_listed(path['before'])}" if path["before"] else "directly after the decoder"
    if kind == ENCODER:
        return f"{before}, {_listed(path['after'])}"
    return f"{before} and before {_listed(path['after'])}" if path["after"] else f"{before} and the last one"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))
