"""Draws the path of a message from its sender to the receiver: docs/images/data-flow.svg.

tools/data_flow.toml describes the path, and names the code that each part of it stands for. Before anything is drawn,
this code is looked up: every named class and function must exist, and every hand-over must be visible in the code,
because one station uses the other, or both use the module of a common format.

    python tools/draw_data_flow.py            # writes the picture
    python tools/draw_data_flow.py --check    # only checks that it is up to date
"""

from __future__ import annotations

import argparse
import ast
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[1]
FLOW = ROOT / "tools" / "data_flow.toml"
PICTURE = ROOT / "docs" / "images" / "data-flow.svg"
PACKAGE = "wallaroo"

END, OURS, YOURS, DISK = "end", "ours", "yours", "disk"

Use = tuple[str, str]
"""Code that uses other code, both as `module:name`."""


@dataclass(frozen=True)
class Station:
    """A place on the path: what it is called, what happens there, and the code that does it, as `module:name`."""

    name: str
    kind: str
    texts: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    below: str = ""
    """Of a disk: the station that it is drawn below."""


@dataclass(frozen=True)
class HandOver:
    """An arrow between two stations, and the uses of code that make it true."""

    start: str
    end: str
    uses: tuple[Use, ...]
    label: str = ""


@dataclass(frozen=True)
class Frame:
    """The frame around the stations that Spark runs."""

    text: str
    stations: tuple[str, ...]
    uses: tuple[Use, ...]


@dataclass(frozen=True)
class Flow:
    """All that the picture shows."""

    stations: tuple[Station, ...]
    hand_overs: tuple[HandOver, ...]
    frame: Frame


def read_flow(path: Path) -> Flow:
    """Read the description of the path."""
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    return Flow(
        tuple(Station(**_frozen(each)) for each in found["station"]),
        tuple(HandOver(**_frozen(each)) for each in found["hand_over"]),
        Frame(**_frozen(found["frame"])),
    )


def _frozen(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}


class Code:
    """Looks up names in the source of the package."""

    def __init__(self, source: Path) -> None:
        self._source = source
        self._parsed = cache(self._parse)

    def _parse(self, module: str) -> ast.Module | None:
        path = self._source.joinpath(*module.split(".")).with_suffix(".py")
        return ast.parse(path.read_text(encoding="utf-8")) if path.exists() else None

    def find(self, name: str) -> ast.AST | None:
        """Return the definition of `module:name`, or None if there is none; a name may be `Class.member`."""
        module, _, path = name.partition(":")
        found: ast.AST | None = self._parsed(module)
        for part in path.split("."):
            found = next((each for each in _definitions(found) if part in _defined(each)), None)
        return found

    def is_used(self, user: str, used: str) -> bool:
        """Return whether the code of one name uses another: its module imports it, and its body contains it."""
        module, _, path = used.partition(":")
        here = user.partition(":")[0]
        imported = {f"{PACKAGE}.{parent}.{path.split('.')[0]}" for parent in (module, module.rpartition(".")[0])}
        top = self._parsed(here)
        body = self.find(user)
        if top is None or body is None or (here != module and imported.isdisjoint(_imports(top))):
            return False
        last = path.rpartition(".")[2]
        return any(
            last == (each.id if isinstance(each, ast.Name) else each.attr)
            for each in ast.walk(body)
            if isinstance(each, ast.Name | ast.Attribute)
        )


def _definitions(node: ast.AST | None) -> Iterator[ast.AST]:
    """Yield what is defined directly in a module or class; attributes may be set in any method."""
    if isinstance(node, ast.Module):
        yield from node.body
    elif isinstance(node, ast.ClassDef):
        yield from node.body
        for each in ast.walk(node):
            if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store):
                yield each


def _defined(node: ast.AST) -> set[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return {node.name}
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return {node.target.id}
    if isinstance(node, ast.Attribute):
        return {node.attr}
    return set()


def _imports(module: ast.Module) -> set[str]:
    return {
        f"{each.module}.{alias.name}"
        for each in ast.walk(module)
        if isinstance(each, ast.ImportFrom) and not each.level
        for alias in each.names
    }


def untrue(code: Code, flow: Flow) -> Iterator[str]:
    """Yield a sentence for everything in the picture that the code does not confirm."""
    by_name = {station.name: station for station in flow.stations}
    owned = {name.partition(":")[0] for station in flow.stations for name in station.code}
    for station in flow.stations:
        yield from (f"{station.name}: there is no {name}" for name in station.code if code.find(name) is None)
    for over in flow.hand_overs:
        arrow = f"{over.start} -> {over.end}"
        yield from _untrue_uses(code, over.uses, arrow)
        if not _leads([by_name[over.start], by_name[over.end]], over.uses, owned):
            yield f"{arrow}: the uses do not lead from one to the other"
    yield from _untrue_uses(code, flow.frame.uses, flow.frame.text)


def _untrue_uses(code: Code, uses: tuple[Use, ...], where: str) -> Iterator[str]:
    for user, used in uses:
        missing = [name for name in (user, used) if code.find(name) is None]
        yield from (f"{where}: there is no {name}" for name in missing)
        if not missing and not code.is_used(user, used):
            yield f"{where}: {user} does not use {used}"


def _leads(ends: list[Station], uses: tuple[Use, ...], owned: set[str]) -> bool:
    """Return whether the uses connect two stations; a module of none of them, such as a format, connects its users."""

    def place(name: str) -> str:
        module, _, path = name.partition(":")
        return f"{module}:{path.partition('.')[0]}" if module in owned else module

    inside = [station for station in ends if station.kind != END]
    groups = [{station.name, *map(place, station.code)} for station in inside]
    groups += [set(map(place, use)) for use in uses]
    reached = groups.pop(0)
    while touching := [group for group in groups if group & reached]:
        groups = [group for group in groups if group not in touching]
        reached = reached.union(*touching)
    return not groups


LETTER, NAME_LETTER = 7.0, 8.6
MIDDLE, DISK_TOP, DISK_HEIGHT, DISK_RIM = 120.0, 240.0, 66.0, 11
DISK_WIDTH = 116
STACK, STACKED = 7, 2
"""Stations that run many times are drawn with others behind them."""
GAP, FRAME_GAP, PADDING = 56, 18, 14
LINE, NAME_HEIGHT = 19, 24


@dataclass
class Box:
    """A station with its place in the picture."""

    station: Station
    x: float
    y: float
    width: float
    height: float

    @property
    def behind(self) -> int:
        """Return how far the boxes behind this one stick out at its right and its top."""
        return STACK * STACKED if self.station.kind == YOURS else 0

    @property
    def middle(self) -> float:
        """Return the x in the middle."""
        return self.x + self.width / 2

    @property
    def right(self) -> float:
        """Return where an arrow to the right begins."""
        return self.x + self.width + self.behind

    @property
    def bottom(self) -> float:
        """Return where an arrow downwards begins."""
        return self.y + self.height


def placed(flow: Flow) -> dict[str, Box]:
    """Return a box for each station: the path from left to right, and disks below."""
    labels = {(over.start, over.end): over.label for over in flow.hand_overs}
    boxes: dict[str, Box] = {}
    way = [station for station in flow.stations if station.kind != DISK]
    x = 8.0
    for station, following in zip(way, [*way[1:], None], strict=True):
        width = (
            max(NAME_LETTER * len(station.name), *(LETTER * len(text) for text in ("", *station.texts))) + 2 * PADDING
        )
        height = NAME_HEIGHT + LINE * len(station.texts) + 2 * PADDING
        boxes[station.name] = box = Box(station, x, MIDDLE - height / 2, width, height)
        label = labels.get((station.name, following.name), "") if following else ""
        borders = (
            0 if following is None else (station.name in flow.frame.stations) != (following.name in flow.frame.stations)
        )
        x = box.right + max(GAP, LETTER * len(label) + 28) + FRAME_GAP * borders
    for station in flow.stations:
        if station.kind == DISK:
            width = max(NAME_LETTER * len(line) for line in _lines(station)) + 2 * PADDING
            width = max(width, DISK_WIDTH)
            above = boxes[station.below]
            boxes[station.name] = Box(station, above.middle - width / 2, DISK_TOP, width, DISK_HEIGHT)
    return boxes


def _lines(station: Station) -> list[str]:
    """Return the name of a disk on one or two lines."""
    first, joint, second = station.name.partition(" and ")
    return [f"{first} and", second] if joint else [first]


def drawn(flow: Flow) -> str:
    """Return the picture as SVG."""
    boxes = placed(flow)
    width = max(box.right for box in boxes.values()) + 8
    legend_y = DISK_TOP + DISK_HEIGHT + 34
    arrows = {(over.start, over.end) for over in flow.hand_overs}
    parts = [
        _frame(flow.frame.text, [boxes[name] for name in flow.frame.stations]),
        *(_box(box) for box in boxes.values()),
        *(_arrow(over, boxes, twofold=(over.end, over.start) in arrows) for over in flow.hand_overs),
        _legend(width, legend_y),
    ]
    head = _HEAD.format(width=f"{width:g}", height=f"{legend_y + 10:g}", description=escape(described(flow)))
    return "\n".join([head, *parts, "</svg>\n"])


def described(flow: Flow) -> str:
    """Return the picture in words, for those who cannot see it."""
    return "; ".join(
        f"{over.start} to {over.end}{f' ({over.label})' if over.label else ''}" for over in flow.hand_overs
    )


def _text(x: float, y: float, text: str, classes: str) -> str:
    return f'  <text class="{classes}" x="{x:g}" y="{y:g}">{escape(text)}</text>'


def _frame(text: str, boxes: list[Box]) -> str:
    left, right = boxes[0].x - FRAME_GAP, boxes[-1].right + FRAME_GAP
    top, bottom = min(box.y for box in boxes) - STACK * STACKED - 14, max(box.bottom for box in boxes) + 14
    return (
        f'  <rect class="frame" x="{left:g}" y="{top:g}" width="{right - left:g}" height="{bottom - top:g}" rx="10"/>\n'
        + _text((left + right) / 2, top - 9, text, "out small")
    )


def _box(box: Box) -> str:
    if box.station.kind == DISK:
        return _disk(box)
    shape = 'class="{classes}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{round:g}"'
    rounded = box.height / 2 if box.station.kind == END else 8
    parts = []
    for number in range(STACKED if box.behind else 0, -1, -1):
        classes = f"{box.station.kind} behind" if number else box.station.kind
        moved = {"x": box.x + STACK * number, "y": box.y - STACK * number, "width": box.width, "height": box.height}
        parts.append(f"  <rect {shape.format(classes=classes, round=rounded, **moved)}/>")
    on = "out" if box.station.kind == END else "in"
    y = box.y + PADDING + 16
    parts.append(_text(box.middle, y, box.station.name, f"{on} name"))
    parts += [
        _text(box.middle, y + 5 + LINE * (i + 1), text, f"{on} small") for i, text in enumerate(box.station.texts)
    ]
    return "\n".join(parts)


def _disk(box: Box) -> str:
    half, rim = box.width / 2, DISK_RIM
    top, side = box.y + rim, box.height - 2 * rim - 3
    lines = _lines(box.station)
    first = box.y + 2 * rim + (box.height - 2 * rim) / 2 + 4 - 8 * (len(lines) - 1)
    body = (
        f'  <path class="disk" d="M{box.x:g} {top + 3:g} v{side:g} a{half:g} {rim} 0 0 0 {box.width:g} 0 '
        f'v{-side:g} a{half:g} {rim} 0 0 1 {-box.width:g} 0z"/>'
        f'<ellipse class="disk" cx="{box.middle:g}" cy="{top:g}" rx="{half:g}" ry="{rim}"/>'
    )
    return "\n".join([body, *(_text(box.middle, first + 16 * i, line, "in name") for i, line in enumerate(lines))])


def _arrow(over: HandOver, boxes: dict[str, Box], *, twofold: bool) -> str:
    start, end = boxes[over.start], boxes[over.end]
    if DISK not in {start.station.kind, end.station.kind}:
        points = [(start.right + 2, MIDDLE), (end.x - 4, MIDDLE)]
    elif start.station.below == end.station.name or end.station.below == start.station.name:
        x = start.middle + (0 if not twofold else -7 if end.station.kind == DISK else 7)
        upper, lower = (start, end) if end.station.kind == DISK else (end, start)
        points = [(x, upper.bottom + 2), (x, lower.y - 4)]
        if end is upper:
            points = [(x, lower.y - 2), (x, upper.bottom + 4)]
    else:
        y = start.y + start.height / 2 + 5
        points = [(start.x + start.width + 2, y), (end.middle, y), (end.middle, end.bottom + 4)]
    path = f"M{points[0][0]:g} {points[0][1]:g}"
    for (x, _), (to_x, to_y) in pairwise(points):
        path += f" V{to_y:g}" if x == to_x else f" H{to_x:g}"
    arrow = f'  <path class="way" d="{path}" marker-end="url(#tip)"/>'
    if not over.label:
        return arrow
    (left, y), (right, _) = points[:2]
    return f"{arrow}\n" + _text((left + right) / 2, y - 9, over.label, "out small")


_LEGEND = ((YOURS, "runs your code"), (OURS, "runs once"), (DISK, "on disk: survives a crash"))


def _legend(width: float, y: float) -> str:
    widths = [20 + LETTER * len(text) + 28 for _, text in _LEGEND]
    x = (width - sum(widths)) / 2
    parts = ['  <g text-anchor="start">']
    for (kind, text), each in zip(_LEGEND, widths, strict=True):
        parts.append(f'  <rect class="{kind}" x="{x:g}" y="{y - 11:g}" width="13" height="13" rx="3"/>')
        parts.append(_text(x + 20, y, text, "out small"))
        x += each
    return "\n".join([*parts, "  </g>"])


_HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img"
     font-family="system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif" font-size="14"
     text-anchor="middle">
  <title>The path of a message</title>
  <desc>{description}</desc>
  <!-- Written by tools/draw_data_flow.py. Colours that can be read on white and on black. -->
  <style>
    .ours {{ fill: #2f6690 }}
    .yours {{ fill: #b4532a }}
    .disk {{ fill: #4f7358 }}
    .behind {{ opacity: .45 }}
    .frame {{ fill: none; stroke: #808891; stroke-width: 1.5; stroke-dasharray: 5 4 }}
    .end {{ fill: none; stroke: #808891; stroke-width: 1.5 }}
    .out {{ fill: #808891 }}
    .in {{ fill: #fff }}
    .name {{ font-weight: 600 }}
    .small {{ font-size: 12.5px }}
    .way {{ fill: none; stroke: #808891; stroke-width: 2 }}
  </style>
  <defs>
    <marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
      <path d="M0 0 L8 4 L0 8 z" fill="#808891"/>
    </marker>
  </defs>"""


def main() -> int:
    """Draw the picture, or check that it is up to date."""
    parser = argparse.ArgumentParser(description="Draw the path of a message, if the code confirms it.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the picture is out of date")
    parser.add_argument("--flow", type=Path, default=FLOW, help="the description of the path")
    parser.add_argument("--source", type=Path, default=ROOT / "src" / PACKAGE, help="the folder of the package")
    parser.add_argument("--picture", type=Path, default=PICTURE, help="the file")
    given = parser.parse_args()
    flow = read_flow(given.flow)
    if problems := list(untrue(Code(given.source), flow)):
        print("The picture does not match the code:", *problems, sep="\n  ")
        return 1
    picture = drawn(flow)
    if not given.check:
        given.picture.write_text(picture, encoding="utf-8")
    elif not given.picture.exists() or given.picture.read_text(encoding="utf-8") != picture:
        print(f"{given.picture} is out of date: run python tools/draw_data_flow.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
