"""Pipelines that are chained, continued several times and merged: a graph of declarations.

A declaration knows those that it follows, and a pipeline only its ends, so pipelines derived from one another share
declarations, and a pipeline costs no more than what was declared for it. What depends on the ways from a source to
an end, such as the order of branches, is found without following all of them: their number doubles with each fork.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from wallaroo.introspection import MISSING, label

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

SINK_METHODS = frozenset({"to_sink", "to_sinks"})


@dataclass(frozen=True, eq=False)
class Declaration:
    """One call of a method, with its arguments."""

    method: str
    arguments: tuple[Any, ...]
    before: tuple[Declaration, ...] = field(default=(), repr=False)
    """Those that it follows, in the order in which they were merged; none for a source."""

    def __str__(self) -> str:
        """Return it as it is named in messages."""
        given = self.arguments[0] if self.arguments else MISSING
        return self.method if given is MISSING else f"{self.method} {label(given)}"

    @property
    def name(self) -> str:
        """Return how a message names a source."""
        name = self.arguments[0]
        return "without a name" if name is MISSING else repr(name)


Ends = tuple[Declaration, ...]
"""The last declarations of a pipeline, in the order in which they were merged."""


def merged(*pipelines: Ends) -> Ends:
    """Return the ends of several pipelines as those of one.

    An end that is there twice is a mistake, which `graphs_of` finds. Further copies would add nothing.
    """
    count = Counter[Declaration]()
    ends = []
    for each in (each for ends in pipelines for each in ends):
        count[each] += 1
        if count[each] <= 2:
            ends.append(each)
    return tuple(ends)


@dataclass(eq=False)
class SourceGraph:
    """A source and everything declared after it, each declaration once."""

    source: Declaration
    after: dict[Declaration, list[Declaration]]
    """The successors of the source and of each declaration, in order of declaration."""

    def before(self, declaration: Declaration) -> list[Declaration]:
        """Return the direct predecessors of a declaration."""
        return [each for each in dict.fromkeys(declaration.before) if each in self.after]

    @cached_property
    def declarations(self) -> list[Declaration]:
        """Return the declarations in the order of the ways, but each after all its predecessors."""
        numbered = list(self.after)
        numbers = {each: number for number, each in enumerate(numbered)}
        awaited = Counter(each for following in self.after.values() for each in following)
        ready, ordered = [numbers[self.source]], []
        while ready:
            here = numbered[heapq.heappop(ready)]
            ordered.append(here)
            for each in self.after[here]:
                awaited[each] -= 1
                if not awaited[each]:
                    heapq.heappush(ready, numbers[each])
        return ordered[1:]


def graphs_of(ends: Ends) -> tuple[list[SourceGraph], list[str]]:
    """Return a graph for each source, and a sentence for each that is merged with itself."""
    walk = _Walk(ends)
    graphs = [SourceGraph(source, _Walk(ends, within=_reached(source, walk.after)).after) for source in _sources(walk)]
    repeated = dict.fromkeys(source for each in walk.repeated for source in sources_of([each]))
    mistakes = [
        f"the pipeline of source {source.name} is merged with itself: its messages would come twice. Merge it once"
        for source in repeated
    ]
    return graphs, mistakes


def sources_of(ends: Iterable[Declaration]) -> list[Declaration]:
    """Return the sources that lead to these ends, in the order of the ways."""
    return _sources(_Walk(ends))


def _sources(walk: _Walk) -> list[Declaration]:
    return [each for each in walk.after if not each.before]


def _reached(source: Declaration, after: dict[Declaration, list[Declaration]]) -> set[Declaration]:
    """Return a source and everything that follows it."""
    reached, waiting = {source}, [source]
    while waiting:
        new = set(after[waiting.pop()]) - reached
        reached |= new
        waiting += new
    return reached


class _Walk:
    """All declarations that lead to some ends, and how they follow one another, in the order of the ways.

    The ways to the first end come first, and among the ways to one end those over the first of the declarations that it
    follows. Each declaration and each connection counts where it is met for the first time, so it is enough to go one
    new way to each declaration, and then from each of those on it to the others that it follows.
    """

    def __init__(self, ends: Iterable[Declaration], within: Collection[Declaration] | None = None) -> None:
        self.after: dict[Declaration, list[Declaration]] = {}
        self.repeated: list[Declaration] = []
        """Those that are merged with themselves."""
        self._within = within
        self._joined: set[tuple[Declaration, Declaration | None]] = set()
        waiting: list[tuple[Declaration, Declaration | None]] = [(end, None) for end in reversed(self._inside(ends))]
        while waiting:
            here, following = waiting.pop()
            new = self._go_to(here)
            self._join(here, following)
            waiting += reversed([(other, each) for each in new for other in self._inside(each.before)[1:]])

    def _inside(self, declarations: Iterable[Declaration]) -> list[Declaration]:
        return [each for each in declarations if self._within is None or each in self._within]

    def _go_to(self, end: Declaration) -> list[Declaration]:
        """Follow the first way to a declaration, and return what is new on it."""
        way = [end]
        while way[-1] not in self.after and (before := self._inside(way[-1].before)):
            way.append(before[0])
        way.reverse()
        new = [each for each in way if each not in self.after]
        self.after.update((each, []) for each in new)
        for here, following in pairwise(way):
            self._join(here, following)
        return new

    def _join(self, here: Declaration, following: Declaration | None) -> None:
        if (here, following) in self._joined:
            self.repeated.append(here)
        elif following is not None:
            self.after[here].append(following)
        self._joined.add((here, following))
