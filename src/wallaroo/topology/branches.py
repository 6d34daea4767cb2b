"""The lines of pipelines that are chained and merged: what was declared, from each source to its end.

Declarations are told apart by identity: pipelines that were made from one another have declarations in common, and a
message passes each of them once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import zip_longest
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
        """Return it in words, as it is named in messages."""
        given = self.arguments[0] if self.arguments else MISSING
        return self.method if given is MISSING else f"{self.method} {label(given)}"


@dataclass(frozen=True, eq=False)
class Line:
    """A source and what was declared after it; `more_sinks` are those of other pipelines that share all the steps."""

    source: Declaration
    declarations: tuple[Declaration, ...] = ()
    more_sinks: tuple[Declaration, ...] = ()

    def then(self, declaration: Declaration) -> Line:
        """Return this line with one more declaration at its end."""
        return replace(self, declarations=(*self.declarations, declaration))

    @property
    def name(self) -> str:
        """Return what to call the source in a message."""
        name = self.source.arguments[0]
        return "without a name" if name is MISSING else repr(name)

    @property
    def _steps(self) -> tuple[Declaration, ...]:
        return self.declarations[:-1] if self._sink else self.declarations

    @property
    def _sink(self) -> tuple[Declaration, ...]:
        return tuple(each for each in self.declarations[-1:] if each.method in SINK_METHODS)

    def joined(self, other: Line) -> Line | None:
        """Return this line with the sink of another one too, None where that is not all that sets them apart."""
        if self._steps != other._steps or self.includes(other):
            return None
        if not self._sink:
            return replace(self, declarations=other.declarations)
        return replace(self, more_sinks=(*self.more_sinks, *other._sink))

    def includes(self, other: Line) -> bool:
        """Tell whether the way of another line, to the same sink, is one of this line's."""
        ends = [self._sink, *((sink,) for sink in self.more_sinks)]
        return self._steps == other._steps and other._sink in ends


def one_line_for_each_source(lines: Iterable[Line]) -> tuple[list[Line], list[str]]:
    """Return one line for each source, and a sentence for each line that could not be joined with the others.

    A source is read once, and its messages take one way; they may end in the sinks of several pipelines.
    """
    found: dict[int, Line] = {}
    mistakes = []
    for line in lines:
        earlier = found.get(id(line.source))
        if earlier is None:
            found[id(line.source)] = line
        elif joined := earlier.joined(line):
            found[id(line.source)] = joined
        else:
            mistakes.append(_two_ways(earlier, line))
    return list(found.values()), mistakes


def _two_ways(one: Line, other: Line) -> str:
    if one.includes(other):
        return f"the pipeline of source {one.name} is merged with itself: its messages would come twice. Merge it once"
    pairs = zip_longest(one.declarations, other.declarations)
    here, there = next((str(here or "the end"), str(there or "the end")) for here, there in pairs if here is not there)
    return (
        f"the messages of source {one.name} would take two ways, which part at {here} and {there}: a source has one "
        "line of steps. Put the steps one after the other (a computation_multi can give the results of both ways), "
        "end in several sinks with to_sinks([one, another]), or give each way a source of its own, with another name "
        "and another port, and send the messages to both"
    )
