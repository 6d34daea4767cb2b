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
        again = _visits_again(pipeline)
        for name, visits in _visits(pipeline).items():
            if not again.isdisjoint(visits):
                twice = f"pipeline {pipeline.name!r} visits the state {name!r} more than once"
                yield f"{twice}. {_WHY_AND_WAYS_OUT}"
            elif len(visits) > 1:
                yield f"pipeline {pipeline.name!r} visits the state {name!r} in several branches. {_WHY_AND_MERGE}"
    edges = state_hops(pipelines)
    while cycle := _cycle(edges):
        hops = "; ".join(f"{_pipelines_named(edges[here, there])} from {here!r} to {there!r}" for here, there in cycle)
        yield f"the pipelines visit shared states in different orders: {hops}. {_WHY_AND_WAYS_OUT}"
        # With one of its edges removed, the same cycle is not found again, and others still are.
        del edges[cycle[-1]]


def _states(pipeline: Pipeline) -> list[State]:
    return [step.state for step in pipeline.steps if isinstance(step, StateComputation)]


def _visits(pipeline: Pipeline) -> dict[str, list[int]]:
    """Return the steps that use each state, by its name."""
    visits: dict[str, list[int]] = {}
    for index, step in enumerate(pipeline.steps):
        if isinstance(step, StateComputation):
            visits.setdefault(step.state.name, []).append(index)
    return visits


def _visits_again(pipeline: Pipeline) -> set[int]:
    """Return the steps to which messages may come that have already visited the same state."""
    several = [visits for visits in _visits(pipeline).values() if len(visits) > 1]
    return {index for visits in several for index in visits if not set(visits).isdisjoint(pipeline.before(index))}


def state_hops(pipelines: Iterable[Pipeline]) -> dict[tuple[str, str], list[str]]:
    """Return each edge from one state to the next, with the names of the pipelines that contain it."""
    edges: dict[tuple[str, str], list[str]] = {}
    for pipeline in pipelines:
        for hop in _hops(_next_states(pipeline)):
            edges.setdefault(hop, []).append(pipeline.name)
    return edges


def _next_states(pipeline: Pipeline) -> dict[str | None, set[str]]:
    """Return the names of the states that messages visit next after each state, and first of all (after None)."""
    # A second visit is reported as a mistake of its own and would also show up as a cycle.
    again = _visits_again(pipeline)
    after: dict[str | None, set[str]] = {}
    onward: dict[int, set[str]] = {}
    for index in reversed(range(DECODER, len(pipeline.steps))):
        step = None if index == DECODER else pipeline.steps[index]
        following = set[str]().union(*(onward[each] for each in pipeline.after(index) if isinstance(each, int)))
        onward[index] = following
        if isinstance(step, StateComputation) and index not in again:
            after.setdefault(step.state.name, set()).update(following)
            onward[index] = {step.state.name}
    return {**after, None: onward[DECODER]}


def _hops(after: dict[str | None, set[str]]) -> Iterator[tuple[str, str]]:
    """Yield each edge once, in the order of a walk that takes the states by name: it is the same in every process."""
    waiting: list[tuple[str | None, str]] = [(None, name) for name in sorted(after[None], reverse=True)]
    visited = set()
    while waiting:
        here, there = waiting.pop()
        if here is not None:
            yield here, there
        if there not in visited:
            visited.add(there)
            waiting += [(there, name) for name in sorted(after[there], reverse=True)]


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
