"""Draws the figures as an SVG that can be read on light and on dark ground."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from pathlib import Path

from bench.contract import BYTEWAX, PURE, PYSPARK
from bench.figures import Figures
from bench.workloads import WORKLOADS

_WIDTH = 760
_NAMES = 240
_BARS = 360
_ROW = 22
_OURS = "Wallaroo"

_STYLE = """
  text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2937 }
  .title { font-size: 16px; font-weight: 600 }
  .group { font-weight: 600 }
  .quiet { fill: #6b7280 }
  .ours { fill: #2563eb }
  .other { fill: #9ca3af }
  .limit { fill: #d1d5db }
  .line { stroke: #d1d5db; stroke-width: 1 }
  .ours-line { stroke: #2563eb; stroke-width: 4; stroke-linecap: round; opacity: 0.45 }
  .other-line { stroke: #9ca3af; stroke-width: 4; stroke-linecap: round; opacity: 0.45 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e5e7eb }
    .quiet { fill: #9ca3af }
    .ours { fill: #60a5fa }
    .other { fill: #6b7280 }
    .limit { fill: #4b5563 }
    .line { stroke: #4b5563 }
    .ours-line { stroke: #60a5fa }
    .other-line { stroke: #6b7280 }
  }
"""


def draw(results: Path) -> Path | None:
    """Draw what is in the folder of results; returns the chart, None if there is nothing to draw."""
    canvas = _Canvas()
    if (found := results / "throughput.json").exists():
        _throughput(canvas, Figures.read(found))
    if (found := results / "latency.json").exists():
        _latency(canvas, Figures.read(found))
    if not canvas.parts:
        return None
    chart = results / "chart.svg"
    chart.write_text(canvas.svg())
    return chart


class _Canvas:
    """Collects elements from top to bottom."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.y = 12

    def text(self, x: float, text: str, css: str = "", anchor: str = "start") -> None:
        self.parts.append(f'<text x="{x:.1f}" y="{self.y}" class="{css}" text-anchor="{anchor}">{escape(text)}</text>')

    def element(self, text: str) -> None:
        self.parts.append(text)

    def svg(self) -> str:
        height = self.y + 14
        body = "\n".join(self.parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
            f'viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="Benchmark results">\n'
            f"<style>{_STYLE}</style>\n{body}\n</svg>\n"
        )


def _throughput(canvas: _Canvas, figures: Figures) -> None:
    """Draw a bar for each program, grouped by workload."""
    groups = {workload.title: _rates(figures, workload.title) for workload in WORKLOADS}
    groups = {title: rates for title, rates in groups.items() if _OURS in rates}
    if not groups:
        return
    greatest = max(rate for rates in groups.values() for rate in rates.values())
    canvas.y += 10
    canvas.text(0, "Throughput: millions of events a second (longer is better)", "title")
    for title, rates in groups.items():
        canvas.y += _ROW + 8
        canvas.text(0, title, "group")
        for name, rate in rates.items():
            canvas.y += _ROW
            css = "ours" if name == _OURS else "limit" if name == PURE.name else "other"
            width = max(_BARS * rate / greatest, 1)
            shown = "pure loop, one core" if name == PURE.name else name
            canvas.text(_NAMES - 10, shown, "" if name == _OURS else "quiet", "end")
            canvas.element(
                f'<rect x="{_NAMES}" y="{canvas.y - 12}" width="{width:.1f}" height="15" rx="2" class="{css}"/>'
            )
            compared = "" if name == _OURS else f"  (Wallaroo: {rates[_OURS] / rate:.1f} x)"
            canvas.text(_NAMES + width + 8, f"{rate / 1e6:.2f}{compared}", "quiet")
    canvas.y += _ROW


def _rates(figures: Figures, title: str) -> dict[str, float]:
    """Return our rate, then the best of each family, then that of the pure loop."""
    found: dict[str, float] = {}
    for name, family in ((_OURS, [_OURS]), ("Bytewax", BYTEWAX), ("plain PySpark", PYSPARK), (PURE.name, [PURE])):
        members = [f"{title}: {member if isinstance(member, str) else member.name}" for member in family]
        if best := figures.best(members):
            found[name] = figures.by_name[best].median
    return found


@dataclass
class _LogScale:
    lowest: float
    highest: float

    def x(self, value: float) -> float:
        """Return where a value lies between the left and the right end."""
        part = math.log(value / self.lowest) / math.log(self.highest / self.lowest)
        return _NAMES + _BARS * part

    def ticks(self) -> list[float]:
        """Return the powers of ten."""
        powers = range(math.ceil(math.log10(self.lowest)), math.floor(math.log10(self.highest)) + 1)
        return [10.0**power for power in powers]


def _latency(canvas: _Canvas, figures: Figures) -> None:
    """Draw for each load a line from the median to the 99th percentile."""
    rows = _percentile_rows(figures)
    if not rows:
        return
    scale = _LogScale(10 ** math.floor(math.log10(min(p50 for p50, _ in rows.values()))), 1.0)
    scale.highest = 10 ** math.ceil(math.log10(max(p99 for _, p99 in rows.values())))
    canvas.y += 24
    canvas.text(0, "Latency: from the median (dot) to the 99th percentile (shorter is better)", "title")
    top = canvas.y + 12
    for name, (p50, p99) in rows.items():
        canvas.y += _ROW + 2
        who = "other" if "PySpark" in name else "ours"
        middle, end, y = scale.x(p50), scale.x(p99), canvas.y - 4
        canvas.text(_NAMES - 10, name, "quiet" if who == "other" else "", "end")
        canvas.element(f'<line x1="{middle:.1f}" y1="{y}" x2="{end:.1f}" y2="{y}" class="{who}-line"/>')
        canvas.element(f'<circle cx="{middle:.1f}" cy="{y}" r="5" class="{who}"/>')
        canvas.text(end + 10, f"{_time(p50)} to {_time(p99)}", "quiet")
    bottom = canvas.y + 6
    canvas.y += 22
    for tick in scale.ticks():
        x = scale.x(tick)
        canvas.parts.insert(0, f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}" class="line"/>')
        canvas.text(x, _time(tick), "quiet", "middle")


def _percentile_rows(figures: Figures) -> dict[str, tuple[float, float]]:
    """Return p50 and p99 of each load, ours first, by rate."""
    rows = {}
    for name, figure in figures.by_name.items():
        load, _, percentile = name.rpartition(": ")
        other = figures.by_name.get(f"{load}: p99")
        if percentile == "p50" and "first minute" not in load and other:
            rows[load] = (figure.median, other.median)
    ordered = sorted(rows, key=lambda load: ("PySpark" in load, load.split(",")[0], len(load), load))
    return {load.replace("stateful, ", "", load.count("PySpark")): rows[load] for load in ordered}


def _time(milliseconds: float) -> str:
    return f"{milliseconds / 1e3:.3g} s" if milliseconds >= 1e3 else f"{milliseconds:.3g} ms"
