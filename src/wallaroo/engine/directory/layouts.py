"""Where the states of an application go: laid out anew for a new one, and fitted in where a changed one goes on.

Spark's checkpoint knows a state by its level (the place of its stage in the query) and its groups. Neither may change,
nor may the number of levels. So a state that is there keeps its place, also while the application does without it,
and a new one comes behind those of an existing level, such that every pipeline still passes its states in rising
order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from wallaroo.engine.directory.home import Home
from wallaroo.engine.plan import Layout
from wallaroo.errors import DirectoryError
from wallaroo.topology.levels import state_hops, state_levels
from wallaroo.topology.model import Pipeline, State

_WAYS_OUT = (
    "Start fresh with --reset, which keeps what is there in a folder of its own, or choose another directory with "
    "--resilience-dir."
)


@dataclass(frozen=True)
class Fit:
    """A layout for an application that goes on, and in words what is not as it was (empty if nothing is)."""

    layout: Layout
    change: str


def new_layout(pipelines: Sequence[Pipeline], partitions: int, buckets: int) -> Layout:
    """Return the layout of an application that has no state yet."""
    levels = state_levels(pipelines)
    return Layout(
        levels=tuple(tuple(state.name for state in level) for level in levels),
        singles=frozenset(state.name for level in levels for state in level if not state.partitioned),
        partitions=partitions,
        buckets=buckets,
    )


def layout_to_go_on_with(home: Home, application: str, pipelines: Sequence[Pipeline]) -> Fit | None:
    """Return the layout for an application whose state is in `home`, None if there is no state yet.

    Raises:
        DirectoryError: What is there is another application's, or this one has changed too much to go on.
    """
    recorded = home.recorded_layout()
    if recorded is None:
        return None
    name, layout = recorded
    if name != application:
        raise DirectoryError(f"{home.path} holds the state of another application, {name!r}. {_WAYS_OUT}")
    if not home.checkpoint.exists():
        return None  # The last run ended before it had any state.
    try:
        return fitted(layout, pipelines)
    except _MisfitError as error:
        raise DirectoryError(
            f"The application {name!r} has changed and cannot go on with the state in {home.path}: {error}.\n"
            f"Take that back, or: {_WAYS_OUT[0].lower()}{_WAYS_OUT[1:]}"
        ) from error


class _MisfitError(Exception):
    """An application does not fit the state that is there; the text says why not, one reason or more."""


def fitted(recorded: Layout, pipelines: Sequence[Pipeline]) -> Fit:
    """Return the recorded layout with the states of `pipelines` fitted in."""
    states = {state.name: state for level in state_levels(pipelines) for state in level}
    hops = state_hops(pipelines)
    levels = _levels_of(recorded, states, hops)
    if reasons := [*_changed_kinds(recorded, states), *_without_room(recorded, levels, hops)]:
        raise _MisfitError("; ".join(reasons))
    new = [name for name in states if name not in recorded.states]
    layout = replace(
        recorded,
        levels=tuple(
            (*there, *(name for name in new if levels[name] == level)) for level, there in enumerate(recorded.levels)
        ),
        singles=recorded.singles | {name for name in new if not states[name].partitioned},
        unused=frozenset(recorded.states.keys() - states.keys()),
    )
    return Fit(layout, "; ".join(_changes(recorded, layout, new)))


def _levels_of(recorded: Layout, states: dict[str, State], hops: dict[tuple[str, str], list[str]]) -> dict[str, int]:
    """Return the level of each state: the recorded one, or the lowest that is behind all states before it."""
    levels: dict[str, int] = {}
    for name in states:  # Those before it come first.
        lowest = 1 + max((levels[here] for here, there in hops if there == name), default=-1)
        levels[name] = recorded.states[name].level if name in recorded.states else lowest
    return levels


def _changed_kinds(recorded: Layout, states: dict[str, State]) -> Iterator[str]:
    for name, state in states.items():
        if name in recorded.states and state.partitioned == (name in recorded.singles):
            was, now = ("one object", "partitioned") if state.partitioned else ("partitioned", "one object")
            yield f"the state {name!r} was {was} and is {now} now (under another name it would begin anew)"


def _without_room(recorded: Layout, levels: dict[str, int], hops: dict[tuple[str, str], list[str]]) -> Iterator[str]:
    for (here, there), named in hops.items():
        if levels[here] >= levels[there]:
            pipeline = f"pipeline {named[0]!r}"
            if here in recorded.states:
                yield f"{pipeline} passes the states {here!r} and {there!r} in an order that is not as it was"
            else:
                yield f"there is no place for the new state {here!r} of {pipeline} in front of {there!r}"
    for name, level in levels.items():
        if level >= len(recorded.levels):
            behind = [here for here, there in hops if there == name]
            where = f"behind {behind[0]!r}" if behind else "where there was no state at all"
            yield f"there is no place for the new state {name!r} {where}"


def _changes(before: Layout, now: Layout, new: list[str]) -> Iterator[str]:
    if new:
        yield f"new {_listed(new)}"
    if gone := sorted(now.unused - before.unused):
        yield f"{_listed(gone)} no longer used, and kept"
    if back := sorted(before.unused - now.unused):
        yield f"{_listed(back)} used again"


def _listed(names: list[str]) -> str:
    return f"state{'s' if len(names) > 1 else ''} {', '.join(map(repr, names))}"
