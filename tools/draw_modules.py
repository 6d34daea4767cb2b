"""Draws the packages of src/wallaroo and how they import each other: docs/images/modules.svg.

The picture is made from the code's own import statements, so it says what the code says. Packages are put into rows so
that as few imports as possible point up; those that still do are drawn as exceptions. Of all others, those are left out
that follow from others: who imports a package may import what that one may.

    python tools/draw_modules.py            # writes the picture
    python tools/draw_modules.py --check    # only tells whether it is up to date
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "modules.svg"

PACKAGE = "wallaroo"
TAKEN_APART = {"engine"}
"""Packages whose own packages have boxes of their own."""
FACADE, BASE = "what users import", "modules beside the packages"

Edge = tuple[str, str]
Edges = Counter[Edge]
"""Who imports whom, and how many names."""


def read_imports(source: Path) -> Edges:
    """Return how the boxes import each other; what only the type checker imports does not count."""
    edges: Edges = Counter()
    for path in sorted(source.rglob("*.py")):
        names = path.relative_to(source).with_suffix("").parts
        here = _box(source, names[:-1] if names[-1] == "__init__" else names)
        for target in _imported(ast.parse(path.read_text(encoding="utf-8"))):
            first, *rest = target.split(".")
            if first == PACKAGE and (there := _box(source, tuple(rest))) != here:
                edges[here, there] += 1
    return edges


def _box(source: Path, names: tuple[str, ...]) -> str:
    """Return the box of a module, or of a name in one."""
    if not names:
        return FACADE
    if not (source / names[0]).is_dir():
        return BASE if (source / f"{names[0]}.py").exists() else FACADE
    if names[0] in TAKEN_APART and len(names) > 1 and (source / names[0] / names[1]).is_dir():
        return ".".join(names[:2])
    return names[0]


def _imported(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and not child.level:
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        yield from _imported(child)


def in_order(edges: Edges) -> list[str]:
    """Return the boxes in an order in which imports point forwards, but for as few as possible.

    >>> in_order(Counter({("cli", "engine"): 9, ("engine", "api"): 5, ("api", "cli"): 1}))
    ['cli', 'engine', 'api']
    """
    order = sorted({box for edge in edges for box in edge})
    best = _backwards(order, edges)
    improved = True
    while improved:
        improved = False
        for box in sorted(order):
            others = [other for other in order if other != box]
            for place in range(len(order)):
                tried = [*others[:place], box, *others[place:]]
                if (found := _backwards(tried, edges)) < best:
                    best, order, improved = found, tried, True
    return order


def _backwards(order: list[str], edges: Edges) -> int:
    place = {box: number for number, box in enumerate(order)}
    return sum(number for (here, there), number in edges.items() if place[here] > place[there])


def rows_of(order: list[str], edges: Iterable[Edge]) -> dict[str, int]:
    """Return the row of each box, counted from the bottom: above all that it imports.

    >>> rows_of(["cli", "engine", "api"], [("cli", "api"), ("engine", "api"), ("cli", "engine")])
    {'api': 0, 'engine': 1, 'cli': 2}
    """
    edges = list(edges)
    rows: dict[str, int] = {}
    for box in reversed(order):
        rows[box] = 1 + max((rows[there] for here, there in edges if here == box), default=-1)
    return rows


def without_implied(edges: Iterable[Edge]) -> list[Edge]:
    """Return the edges without those that follow from others.

    >>> without_implied([("cli", "engine"), ("engine", "api"), ("cli", "api")])
    [('cli', 'engine'), ('engine', 'api')]
    """
    edges = sorted(edges)
    return [edge for edge in edges if not _leads(edge[0], edge[1], [other for other in edges if other != edge])]


def _leads(here: str, there: str, edges: list[Edge]) -> bool:
    seen, waiting = {here}, [here]
    while waiting:
        box = waiting.pop()
        following = {end for start, end in edges if start == box} - seen
        seen |= following
        waiting += following
    return there in seen


BOX_HEIGHT, ROW_HEIGHT, GAP, MARGIN = 40, 96, 26, 20
LETTER = 8.2
BESIDE = 10
LEGEND = 560
THREAD = 14
"""The room for a line that passes a row."""
_COLOURS = ("#2f6690", "#b4532a", "#4f7358", "#7a4e8a", "#8a6d1d", "#3d6b6b", "#5b5f66")


@dataclass
class Slot:
    """A place in a row: a box, or a line that passes by."""

    name: str
    width: float
    is_box: bool
    x: float = 0.0


class Picture:
    """Boxes in rows, with the lines between them laid through the gaps."""

    def __init__(self, edges: Edges) -> None:
        order = in_order(edges)
        place = {box: number for number, box in enumerate(order)}
        self.forward = [edge for edge in edges if place[edge[0]] < place[edge[1]]]
        self.backward = sorted(edge for edge in edges if place[edge[0]] > place[edge[1]])
        self.edges = edges
        self.row_of = rows_of(order, self.forward)
        self.rows: list[list[Slot]] = [[] for _ in range(1 + max(self.row_of.values(), default=0))]
        for box in order:
            self.rows[self.row_of[box]].append(Slot(box, LETTER * len(box) + 28, is_box=True))
        self.ways = {edge: self._way(edge) for edge in [*without_implied(self.forward), *self.backward]}
        self._neighbours()
        self._place()

    def _way(self, edge: Edge) -> list[str]:
        """Return the slots that a line passes, from the upper end to the lower one; makes those in between."""
        upper, lower = sorted(edge, key=lambda box: -self.row_of[box])
        between = []
        for row in range(self.row_of[upper] - 1, self.row_of[lower], -1):
            between.append(f"{edge[0]}>{edge[1]}@{row}")
            self.rows[row].append(Slot(between[-1], THREAD, is_box=False))
        return [upper, *between, lower]

    def _neighbours(self) -> None:
        self._joined: dict[str, list[str]] = {slot.name: [] for row in self.rows for slot in row}
        for way in self.ways.values():
            for above, below in pairwise(way):
                self._joined[above].append(below)
                self._joined[below].append(above)

    def _place(self) -> None:
        """Put the slots of each row into the order in which lines cross least, and give all their places."""
        self._spread()
        for turn in range(24):
            rows = self.rows if turn % 2 else self.rows[::-1]
            slots = {slot.name: slot for row in self.rows for slot in row}
            for row in rows:
                row.sort(key=lambda slot: (self._middle(slot, slots), slot.name))
                self._spread()

    def _middle(self, slot: Slot, slots: dict[str, Slot]) -> float:
        joined = [slots[name].x for name in self._joined[slot.name]]
        return sum(joined) / len(joined) if joined else slot.x

    def _spread(self) -> None:
        """Give each slot its x, each row in the middle of the picture."""
        widths = [sum(slot.width for slot in row) + GAP * (len(row) - 1) for row in self.rows]
        self.width = max(*widths, LEGEND) + 2 * MARGIN
        for row, width in zip(self.rows, widths, strict=True):
            at = (self.width - width) / 2
            for slot in row:
                slot.x = at + slot.width / 2
                at += slot.width + GAP

    @property
    def height(self) -> float:
        """Return the height without what is below the boxes."""
        return MARGIN * 2 + BOX_HEIGHT + ROW_HEIGHT * (len(self.rows) - 1)

    def top(self, row: int) -> float:
        """Return where the boxes of a row begin."""
        return MARGIN + ROW_HEIGHT * (len(self.rows) - 1 - row)


def drawn(edges: Edges) -> str:
    """Return the picture as SVG."""
    picture = Picture(edges)
    slots = {slot.name: (slot, row) for row, of_row in enumerate(picture.rows) for slot in of_row}
    lines = [_line(picture, edge, way, slots) for edge, way in picture.ways.items()]
    boxes = [_box_drawn(slot, picture.top(row)) for slot, row in slots.values() if slot.is_box]
    words = _words(picture)
    height = picture.height + 20 * len(words)
    legend = [
        f'  <text x="{MARGIN}" y="{picture.height + 6 + 20 * number:g}" class="words">{escape(text)}</text>'
        for number, text in enumerate(words)
    ]
    head = _HEAD.format(width=f"{picture.width:g}", height=f"{height:g}")
    return "\n".join([head, *lines, *boxes, *legend, "</svg>\n"])


def _words(picture: Picture) -> list[str]:
    words = ["An arrow leads from a package to one that it imports; it may also import what that one may."]
    if picture.backward:
        words.append("Dashed: imports against this order, with how many names they are.")
    return words


def _line(picture: Picture, edge: Edge, way: list[str], slots: dict[str, tuple[Slot, int]]) -> str:
    kind = "way" if edge not in picture.backward else "exception"
    points = []
    for number, name in enumerate(way):
        slot, row = slots[name]
        # Two boxes that import each other have two lines beside each other.
        x, top = slot.x + (BESIDE if kind == "exception" else 0), picture.top(row)
        points += [] if number == 0 else [(x, top)]
        points += [] if number == len(way) - 1 else [(x, top + BOX_HEIGHT)]
    is_forward = way[0] == edge[0]
    path = _curve(points if is_forward else points[::-1])
    line = f'  <path class="{kind}" d="{path}" marker-end="url(#tip-{kind})"/>'
    if kind == "way":
        return line
    (x, y), (other_x, other_y) = points[0], points[1]
    place = f'x="{(x + other_x) / 2:g}" y="{(y + other_y) / 2:g}"'
    return f'{line}\n  <text class="words number" {place}>{picture.edges[edge]}</text>'


def _curve(points: list[tuple[float, float]]) -> str:
    """Return a path through the points, straight beside boxes and bent between rows."""
    path = [f"M{points[0][0]:g} {points[0][1]:g}"]
    for number, ((x, y), (to_x, to_y)) in enumerate(pairwise(points)):
        middle = (y + to_y) / 2
        bent = f"C{x:g} {middle:g} {to_x:g} {middle:g} {to_x:g} {to_y:g}"
        path.append(bent if number % 2 == 0 else f"L{to_x:g} {to_y:g}")
    return " ".join(path)


def _box_drawn(slot: Slot, top: float) -> str:
    left = slot.x - slot.width / 2
    family = slot.name.partition(".")[0]
    colour = _COLOURS[-1] if family in {FACADE, BASE} else _COLOURS[sum(map(ord, family)) % (len(_COLOURS) - 1)]
    return (
        f'  <rect x="{left:g}" y="{top:g}" width="{slot.width:g}" height="{BOX_HEIGHT}" rx="6" fill="{colour}"/>\n'
        f'  <text x="{slot.x:g}" y="{top + BOX_HEIGHT / 2 + 5:g}" class="name">{escape(slot.name)}</text>'
    )


_HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img"
     font-family="system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif" font-size="14">
  <title>The packages of wallaroo and how they import each other</title>
  <!-- Written by tools/draw_modules.py. Colours that can be read on white and on black. -->
  <style>
    .name {{ fill: #fff; font-weight: 600; text-anchor: middle }}
    .words {{ fill: #808891; font-size: 12.5px }}
    .number {{ fill: #d0652f; text-anchor: middle }}
    .way {{ fill: none; stroke: #808891; stroke-width: 1.5 }}
    .exception {{ fill: none; stroke: #d0652f; stroke-width: 1.5; stroke-dasharray: 5 4 }}
  </style>
  <defs>
    <marker id="tip-way" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
      <path d="M0 0 L8 4 L0 8 z" fill="#808891"/>
    </marker>
    <marker id="tip-exception" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
      <path d="M0 0 L8 4 L0 8 z" fill="#d0652f"/>
    </marker>
  </defs>"""


def main() -> int:
    """Draw the picture, or tell whether it is up to date."""
    parser = argparse.ArgumentParser(description="Draw how the packages of wallaroo import each other.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where the picture is out of date")
    parser.add_argument("--source", type=Path, default=ROOT / "src" / PACKAGE, help="the folder of the package")
    parser.add_argument("--picture", type=Path, default=PICTURE, help="the file")
    given = parser.parse_args()
    picture = drawn(read_imports(given.source))
    if not given.check:
        given.picture.write_text(picture, encoding="utf-8")
    elif not given.picture.exists() or given.picture.read_text(encoding="utf-8") != picture:
        print(f"{given.picture} is out of date: run python tools/draw_modules.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
