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
        """Return whether this value reaches the target."""
        return value <= self.bound if self.at_most else value >= self.bound

    @property
    def wanted(self) -> str:
        """Return the bound as people read it."""
        return f"{'at most' if self.at_most else 'at least'} {self.bound:g}"


_STATEFUL, _BUSY = "stateful, 1,000/s", "stateful, 50,000/s"

TARGETS = [
    Target("1,000/s: p50, in ms", f"{_STATEFUL}: p50", 10, at_most=True),
    Target("1,000/s: p50, of plain PySpark's best", f"{_STATEFUL}: p50 / PySpark's best", 0.02, at_most=True),
    Target("1,000/s: p99 over three minutes, in ms", f"{_STATEFUL}: p99", 30, at_most=True),
    Target("1,000/s: p99.9 over three minutes, in ms", f"{_STATEFUL}: p99.9", 500, at_most=True),
    Target("50,000/s: p50, in ms", f"{_BUSY}: p50", 15, at_most=True),
    Target("50,000/s: p99, in ms", f"{_BUSY}: p99", 60, at_most=True),
    # A backlog that grows makes each third wait longer than the one before; a little is noise.
    Target("50,000/s: no growing backlog", f"{_BUSY}: last third / second third", 1.25, at_most=True),
    Target("two states in a row, 1,000/s: p50, in ms", "two states, 1,000/s: p50", 20, at_most=True),
    Target("word count, 27 keys: times Bytewax's best", "word count, 27 keys: Wallaroo / Bytewax's best", 1.8),
    Target("word count, 5,000 keys: times Bytewax's best", "word count, 5,000 keys: Wallaroo / Bytewax's best", 2.5),
    Target("word count, 200,000 keys: times Bytewax's best", "word count, 200,000 keys: Wallaroo / Bytewax's best", 2),
    Target("stateless: times Bytewax's best", "stateless conversion: Wallaroo / Bytewax's best", 1.2),
    Target("market spread: times Bytewax's best", "market spread, two pipelines: Wallaroo / Bytewax's best", 1.5),
    Target("socket to socket: times that out of the log", "socket to socket / out of the log", 0.95),
    # As many keys have changed with both; a little is noise.
    Target(
        "change of epochs with 1,000,000 keys, of 100,000",
        "1,000,000 keys / 100,000 keys: pause",
        1.25,
        at_most=True,
    ),
    Target("killed worker: seconds to the first output", "killed worker: to the first new output", 3, at_most=True),
    Target(
        "killed JVM: seconds to the first output, beyond a start",
        "killed JVM: to the first new output, beyond a start",
        3,
        at_most=True,
    ),
    # Twenty times the history on the same live state; a little is noise.
    Target("restart with 20x the history, of 1x", "history 20x / 1x: restart", 1.15, at_most=True),
    Target("memory with 20x the input, of 5x", "input 20x / 5x: memory", 1.1, at_most=True),
    Target("start, of a bare Spark session", "start / bare Spark session", 1.5, at_most=True),
    Target("idle, in % of a core", "idle", 2, at_most=True),
    Target(
        "topic to topic, exactly once: times the better of Bytewax and Quix Streams",
        "Kafka, word count: Wallaroo, exactly once / the better of the two",
        1.5,
    ),
    Target(
        "topic to topic, 1,000/s, at least once: p50, in ms",
        "Kafka, 1,000/s: Wallaroo, at least once: p50",
        30,
        at_most=True,
    ),
    Target("between scripts: times plain TCP", "between scripts / plain TCP", 0.7),
]
