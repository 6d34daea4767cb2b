"""What is to be reached on a machine with two cores, and what was."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bench.figures import Figures


@dataclass(frozen=True)
class Target:
    """A bound for one figure."""

    what: str
    figure: str
    bound: float
    at_most: bool = False

    def value(self, parts: Iterable[Figures]) -> float | None:
        """Return what was measured, None if it was not."""
        found = (part.median(self.figure) for part in parts)
        return next((value for value in found if value is not None), None)

    def is_met(self, value: float) -> bool:
        """Tell whether this value reaches the target."""
        return value <= self.bound if self.at_most else value >= self.bound

    @property
    def wanted(self) -> str:
        """Return the bound as people read it."""
        return f"{'at most' if self.at_most else 'at least'} {self.bound:g}"


TARGETS = [
    Target("word count, 27 keys: times Bytewax's best", "word count, 27 keys: Wallaroo / Bytewax's best", 1.5),
    Target("word count, 27 keys: times plain PySpark", "word count, 27 keys: Wallaroo / plain PySpark", 10),
    Target("word count, 27 keys: times two pure loops", "word count, 27 keys: Wallaroo / 2 x pure loop", 0.45),
    Target("word count, 5,000 keys: times Bytewax's best", "word count, 5,000 keys: Wallaroo / Bytewax's best", 1.3),
    Target(
        "word count, 200,000 keys: times Bytewax's best", "word count, 200,000 keys: Wallaroo / Bytewax's best", 1.0
    ),
    Target("stateless: times Bytewax's best", "stateless conversion: Wallaroo / Bytewax's best", 1.5),
    Target("socket to socket: times that out of the log", "socket to socket / out of the log", 0.8),
    Target("ingress alone: times the engine", "ingress alone / out of the log", 2.0),
    Target("1,000/s: p50, of plain PySpark's", "stateful, 1,000/s: p50 / PySpark's best", 0.25, at_most=True),
    Target("1,000/s: p99, of p50", "stateful, 1,000/s: p99 / p50", 2.5, at_most=True),
    # A backlog that grows makes each third wait longer than the one before; a little is noise.
    Target("50,000/s: no growing backlog", "stateful, 50,000/s: last third / second third", 1.25, at_most=True),
    Target("50,000/s: p50, of that at 1,000/s", "stateful, 50,000/s: p50 / p50 at 1,000/s", 1.5, at_most=True),
    Target("first minute: p99, of the warm p99", "stateful, 1,000/s: p99 of the first minute / p99", 3, at_most=True),
    # Twenty times the history on the same live state; a little is noise.
    Target("restart with 20x the history, of 1x", "history 20x / 1x: restart", 1.15, at_most=True),
    Target("memory with 20x the input, of 5x", "input 20x / 5x: memory", 1.1, at_most=True),
    Target("start, of a bare Spark session", "start / bare Spark session", 1.5, at_most=True),
    Target("idle, in % of a core", "idle", 5, at_most=True),
]
