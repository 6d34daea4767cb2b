"""Pipelines that are chained, continued several times and merged: the declarations after each source.

A pipeline is kept as lines, each from a source to an end. Declarations are compared by identity: pipelines derived from
one another share declarations. Together the lines of a source form a graph: where they diverge, a message follows each
branch, and what they share is computed once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from wallaroo.introspection import MISSING, label

if TYPE_CHECKING:
    from collections.abc import Iterable

SINK_METHODS = frozenset({"to_sink", "to_sinks"})


@dataclass(frozen=True, eq=False)
class Declaration:
    """One call of a method, with its arguments."""

    method: str
    arguments: tuple[Any, ...]

    def __str__(self) -> str:
        """Return it as it is named in messages."""
        given = self.arguments[0] if self.arguments else MISSING
        return self.method if given is MISSING else f"{self.method} {label(given)}"


@dataclass(frozen=True, eq=False)
class Line:
    """A source and the declarations after it, up to one end."""

    source: Declaration
    declarations: tuple[Declaration, ...] = ()

    def then(self, declaration: Declaration) -> Line:
        """Return this line with one more declaration appended."""
        return replace(self, declarations=(*self.declarations, declaration))

    @property
    def name(self) -> str:
        """Return how a message names the source."""
        name = self.source.arguments[0]
        return "without a name" if name is MISSING else repr(name)


@dataclass(eq=False)
class SourceGraph:
    """A source and everything declared after it, each declaration once."""

    source: Declaration
    after: dict[Declaration, list[Declaration]] = field(default_factory=dict)
    """The successors of the source and of each declaration, in order of declaration."""

    def add(self, line: Line) -> None:
        """Add a line of this source."""
        here = self.source
        for declaration in line.declarations:
            following = self.after.setdefault(here, [])
            if declaration not in following:
                following.append(declaration)
            here = declaration
        self.after.setdefault(here, [])

    def before(self, declaration: Declaration) -> list[Declaration]:
        """Return the direct predecessors of a declaration."""
        return [each for each, following in self.after.items() if declaration in following]

    @cached_property
    def declarations(self) -> list[Declaration]:
        """Return the declarations in the order of the lines, but each after all its predecessors."""
        waiting = [each for each in self.after if each is not self.source]
        ordered = []
        while waiting:
            led_to = {following for each in waiting for following in self.after[each]}
            ready = next(each for each in waiting if each not in led_to)
            waiting.remove(ready)
            ordered.append(ready)
        return ordered


def graphs_of(lines: Iterable[Line]) -> tuple[list[SourceGraph], list[str]]:
    """Return a graph for each source, and a sentence for each duplicate line."""
    graphs: dict[Declaration, SourceGraph] = {}
    seen: set[tuple[Declaration, ...]] = set()
    mistakes = []
    for line in lines:
        whole = (line.source, *line.declarations)
        if whole in seen:
            mistakes.append(
                f"the pipeline of source {line.name} is merged with itself: its messages would come twice. Merge it "
                "once"
            )
        seen.add(whole)
        graphs.setdefault(line.source, SourceGraph(line.source)).add(line)
    return list(graphs.values()), mistakes
