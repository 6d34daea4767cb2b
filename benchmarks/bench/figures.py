"""What was measured: figures by name, each with a value for every round."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

_SMALL = 0.1


@dataclass
class Figure:
    """The values that one thing had in each round."""

    unit: str
    values: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Return the value in the middle."""
        return statistics.median(self.values)

    def text(self, value: float) -> str:
        """Return a value as people read it, with as many digits as mean something."""
        if 0 < value < _SMALL:
            return f"{value:.4f}"
        if self.unit in {"x", "%"} or value < 100:
            return f"{value:,.2f}"
        return f"{value:,.0f}"


class Figures:
    """The figures of one part of the benchmark, in the order in which they were first measured."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.by_name: dict[str, Figure] = {}
        self.notes: list[str] = []
        """What could not be measured, and why."""

    def add(self, name: str, value: float, unit: str) -> None:
        """Add the value of one round."""
        self.by_name.setdefault(name, Figure(unit)).values.append(value)

    def median(self, name: str) -> float | None:
        """Return a figure's median, None if there is no such figure."""
        figure = self.by_name.get(name)
        return figure.median if figure else None

    def best(self, names: Iterable[str]) -> str | None:
        """Return the one of these figures with the greatest median, None if there are none."""
        present = [name for name in names if name in self.by_name]
        return max(present, key=lambda name: self.by_name[name].median, default=None)

    def add_ratios(self, name: str, above: str, below: str, factor: float = 1.0) -> None:
        """Add a figure that is the ratio of two others, round by round."""
        above_figure, below_figure = self.by_name.get(above), self.by_name.get(below)
        if above_figure is None or below_figure is None:
            return
        if len(above_figure.values) != len(below_figure.values):
            self.notes.append(f"{name}: a round of one of them is missing, so it is the ratio of the medians.")
            self.add(name, above_figure.median / (factor * below_figure.median), "x")
            return
        for value, other in zip(above_figure.values, below_figure.values, strict=True):
            self.add(name, value / (factor * other), "x")

    def write(self, path: Path, about: dict[str, Any]) -> None:
        """Write the figures to a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        figures = {
            name: {
                "unit": figure.unit,
                "median": figure.median,
                "lowest": min(figure.values),
                "highest": max(figure.values),
                "values": figure.values,
            }
            for name, figure in self.by_name.items()
        }
        content = {"title": self.title, **about, "notes": self.notes, "figures": figures}
        path.write_text(json.dumps(content, indent=2) + "\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read figures from a file."""
        content = json.loads(path.read_text())
        figures = cls(content["title"])
        figures.notes = content["notes"]
        for name, found in content["figures"].items():
            figures.by_name[name] = Figure(found["unit"], found["values"])
        return figures
