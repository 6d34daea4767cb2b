"""Draws the figures as an SVG that can be read on light and on dark ground."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from pathlib import Path

from bench.contract import BYTEWAX, BYTEWAX_BY_STEP, PURE, PYSPARK, best_of, families
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


@dataclass
class _Rate:
    """A bar: what a program did in a second, and the ratio of ours to it."""

    name: str
    css: str
    rate: float
    ratio: float | None = None


def _throughput(canvas: _Canvas, figures: Figures) -> None:
    """Draw a bar for each program, grouped by workload."""
    groups = {workload.title: _rates(figures, workload.title) for workload in WORKLOADS}
    groups = {title: rates for title, rates in groups.items() if rates}
    if not groups:
        return
    greatest = max(each.rate for rates in groups.values() for each in rates)
    canvas.y += 10
    canvas.text(0, "Throughput: millions of events a second (longer is better)", "title")
    for title, rates in groups.items():
        canvas.y += _ROW + 8
        canvas.text(0, title, "group")
        for each in rates:
            canvas.y += _ROW
            width = max(_BARS * each.rate / greatest, 1)
            canvas.text(_NAMES - 10, each.name, "" if each.css == "ours" else "quiet", "end")
            canvas.element(
                f'<rect x="{_NAMES}" y="{canvas.y - 12}" width="{width:.1f}" height="15" rx="2" class="{each.css}"/>'
            )
            compared = f"  (Wallaroo: {each.ratio:.1f} x)" if each.ratio else ""
            canvas.text(_NAMES + width + 8, f"{each.rate / 1e6:.2f}{compared}", "quiet")
    canvas.y += _ROW


def _rates(figures: Figures, title: str) -> list[_Rate]:
    """Return our rate, then the best of each family, then that of the pure loop."""
    ours = f"{title}: {_OURS}"
    found = []
    if rate := figures.median(ours):
        found.append(_Rate(_OURS, "ours", rate))
        for family, members in families([*BYTEWAX, BYTEWAX_BY_STEP, *PYSPARK]).items():
            if best := figures.best(f"{title}: {member.name}" for member in members):
                ratio = figures.median(f"{ours} / {best_of(family, members)}")
                found.append(_Rate(family, "other", figures.by_name[best].median, ratio))
        if rate := figures.median(f"{title}: {PURE.name}"):
            half = figures.median(f"{ours} / 2 x pure loop")
            found.append(_Rate("pure loop, one core", "limit", rate, 2 * half if half else None))
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
        who = "other" if _is_other(name) else "ours"
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
    ordered = sorted(rows, key=lambda load: (_is_other(load), load.split(",")[0], len(load), load))
    return {load.replace("stateful, ", "", _is_other(load)): rows[load] for load in ordered}


def _is_other(load: str) -> bool:
    return "PySpark" in load or "Bytewax" in load


def _time(milliseconds: float) -> str:
    return f"{milliseconds / 1e3:.3g} s" if milliseconds >= 1e3 else f"{milliseconds:.3g} ms"
