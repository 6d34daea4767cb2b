"""The order of states: all pipelines visit the states in one common order."""

from __future__ import annotations

import graphlib
from itertools import pairwise
from typing import TYPE_CHECKING

from wallaroo.errors import WallarooParameterError
from wallaroo.topology.model import DECODER, Pipeline, State, StateComputation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_WHY_AND_WAYS_OUT = (
    "All pipelines run as one query in which each state has one place, so every pipeline has to pass the "
    "states in the same order, and each of them once. Ways out: use a different state name in one of the "
    "steps (with the state in its decorator, a computation's name is its state's too); change the order of the "
    "steps; or split the work into two applications connected by TCP"
)
_WHY_AND_MERGE = (
    "The messages of one branch would come before those of the other, as many at a time as happen to be computed "
    "together. Merge the branches before this step, as in one.merge(another).to(computation): then each message comes "
    "in its turn, once from each branch; or write a computation with another name for one of them"
)


def state_levels(pipelines: Iterable[Pipeline]) -> list[list[State]]:
    """Return the states level by level, so that each pipeline visits strictly increasing levels.

    States with the same name are one state, represented by the first one found. The level of a state is the length of
    the longest path to it over all pipelines; within a level, states keep the order of declaration.
    Raises a WallarooParameterError if no such levels exist; `order_mistakes` gives the reasons.
    """
    pipelines = list(pipelines)
    mistakes = list(order_mistakes(pipelines))
    if mistakes:
        raise WallarooParameterError(". ".join(mistakes))
    before = _states_before(state_hops(pipelines))
    depth: dict[str, int] = {}
    for name in graphlib.TopologicalSorter(before).static_order():
        depth[name] = 1 + max((depth[earlier] for earlier in before.get(name, ())), default=-1)
    states: dict[str, State] = {}
    for pipeline in pipelines:
        for state in _states(pipeline):
            states.setdefault(state.name, state)
    levels: list[list[State]] = [[] for _ in range(1 + max((depth.get(name, 0) for name in states), default=-1))]
    for name, state in states.items():
        levels[depth.get(name, 0)].append(state)
    return levels


def order_mistakes(pipelines: Iterable[Pipeline]) -> Iterator[str]:
    """Yield a sentence for each reason why the states of these pipelines have no common order."""
    pipelines = list(pipelines)
    for pipeline in pipelines:
        names = [state.name for state in _states(pipeline)]
        for name in dict.fromkeys(names):
            if any(way.count(name) > 1 for way in _ways(pipeline)):
                twice = f"pipeline {pipeline.name!r} visits the state {name!r} more than once"
                yield f"{twice}. {_WHY_AND_WAYS_OUT}"
            elif names.count(name) > 1:
                yield f"pipeline {pipeline.name!r} visits the state {name!r} in several branches. {_WHY_AND_MERGE}"
    edges = state_hops(pipelines)
    while cycle := _cycle(edges):
        hops = "; ".join(f"{_pipelines_named(edges[here, there])} from {here!r} to {there!r}" for here, there in cycle)
        yield f"the pipelines visit shared states in different orders: {hops}. {_WHY_AND_WAYS_OUT}"
        # With one of its edges removed, the same cycle is not found again, and others still are.
        del edges[cycle[-1]]


def _states(pipeline: Pipeline) -> list[State]:
    return [step.state for step in pipeline.steps if isinstance(step, StateComputation)]


def _ways(pipeline: Pipeline) -> list[tuple[str, ...]]:
    """Return the names of the states on each path that messages may take."""
    ways: dict[int, set[tuple[str, ...]]] = {}
    for index in reversed(range(DECODER, len(pipeline.steps))):
        step = None if index == DECODER else pipeline.steps[index]
        here = (step.state.name,) if isinstance(step, StateComputation) else ()
        onward = [way for each in pipeline.after(index) if isinstance(each, int) for way in ways[each]]
        ways[index] = {(*here, *way) for way in onward or [()]}
    return sorted(ways[DECODER])


def state_hops(pipelines: Iterable[Pipeline]) -> dict[tuple[str, str], list[str]]:
    """Return each edge from one state to the next, with the names of the pipelines that contain it."""
    edges: dict[tuple[str, str], list[str]] = {}
    for pipeline in pipelines:
        # A second visit is reported as a mistake of its own and would also show up here as a cycle.
        ways = map(dict.fromkeys, _ways(pipeline))
        for hop in dict.fromkeys(hop for way in ways for hop in pairwise(way)):
            edges.setdefault(hop, []).append(pipeline.name)
    return edges


def _states_before(edges: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    before: dict[str, list[str]] = {}
    for here, there in edges:
        before.setdefault(there, []).append(here)
    return before


def _cycle(edges: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the edges of a cycle among the states, or an empty list if there is none."""
    try:
        graphlib.TopologicalSorter(_states_before(edges)).prepare()
    except graphlib.CycleError as error:
        # The cycle is given as [first, ..., last, first], each one a predecessor of the next.
        return list(pairwise(error.args[1]))
    return []


def _pipelines_named(names: list[str]) -> str:
    if len(names) == 1:
        return f"pipeline {names[0]!r} goes"
    return f"pipelines {', '.join(repr(name) for name in names)} go"
