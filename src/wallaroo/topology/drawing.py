"""Draws an application: each pipeline from its source through its steps to its sinks, in plain text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from wallaroo.connectors.registry import sink_kind, source_kind
from wallaroo.introspection import bare_label
from wallaroo.topology.model import (
    DECODER,
    Application,
    KeyBy,
    Pipeline,
    SinkGroup,
    State,
    StateComputation,
    Step,
    Target,
    sink_name,
)

_MARGIN = "  "
_OF_ONE_COLUMN = re.compile("[ -~─-╿▶◆◇⇉○“”]*")
_SHARED, _OWN = "◆", "◇"


def draw(application: Application, width: int = 100) -> str:
    """Return a drawing of the application that is at most `width` columns wide; `width` must be 41 or more.

    It may be wider if branches have branches and `width` leaves too little room for them.

    A double line leaves steps that output any number of messages for one input. `◆` marks a state that several
    pipelines share; a legend below the pipelines lists them.

    >>> import wallaroo
    >>> @wallaroo.decoder
    ... def decode(bs):
    ...     return bs.decode()
    >>> @wallaroo.computation_multi("split")
    ... def split(line):
    ...     return line.split()
    >>> @wallaroo.state_computation("count")
    ... def count(word, totals):
    ...     totals[word] = totals.get(word, 0) + 1
    ...     return (word, totals[word]), True
    >>> @wallaroo.partition
    ... def first_letter(word):
    ...     return word[0]
    >>> @wallaroo.encoder
    ... def encode(counted):
    ...     return "%s => %d" % counted
    >>> ab = wallaroo.ApplicationBuilder("Word Count")
    >>> ab = ab.new_pipeline("lines", wallaroo.TCPSourceConfig("127.0.0.1", "7010", decode)).to(split)
    >>> ab = ab.to_state_partition(count, dict, "totals", first_letter)
    >>> print(draw(ab.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", "7002", encode)).build()))
    Word Count
    <BLANKLINE>
      lines
      ╭────────────────────╮   ╭──────────╮   ╭──────────────────╮   ╭────────────────────╮
      │ TCP 127.0.0.1:7010 ├──▶│ split    ╞══▶│ count            ├──▶│ TCP 127.0.0.1:7002 │
      │ decoded by decode  │   │ 1 ⇉ many │   │ ◇ totals         │   │ encoded by encode  │
      ╰────────────────────╯   ╰──────────╯   │ by key (any key) │   ╰────────────────────╯
                                              ╰──────────────────╯
    """
    users = _users_of_states(application)
    shared = {name for name, steps in users.items() if len({pipeline for pipeline, _ in steps}) > 1}
    room = width - len(_MARGIN)
    lines = wrapped(application.name, width)
    for pipeline in application.pipelines:
        drawn = [*wrapped(pipeline.name, room), *chained(_PipelineDrawing(pipeline, shared).blocks(room), room)]
        lines += ["", *(_MARGIN + line for line in drawn)]
    legend = [line for name in users if name in shared for line in _legend(name, users[name], width)]
    return "\n".join([*lines, "", *legend] if legend else lines)


def _users_of_states(application: Application) -> dict[str, list[tuple[str, str]]]:
    """Return for each state the pipelines and steps that use it, in order of declaration."""
    users: dict[str, list[tuple[str, str]]] = {}
    for pipeline in application.pipelines:
        for step in pipeline.steps:
            if isinstance(step, StateComputation):
                users.setdefault(step.state.name, []).append((pipeline.name, step.name))
    return users


def _legend(state: str, users: list[tuple[str, str]], width: int) -> Iterator[str]:
    *most, last = [f"{pipeline!r} ({step})" for pipeline, step in users]
    text = f"state {state!r} — shared by {', '.join(most)} and {last}"
    for number, line in enumerate(wrapped(text, width - 2)):
        yield f"  {line}" if number else f"{_SHARED} {line}"


class _PipelineDrawing:
    """Draws a pipeline from its source on. The target of several branches is drawn once, and then only named."""

    def __init__(self, pipeline: Pipeline, shared: set[str]) -> None:
        self._pipeline = pipeline
        self._shared = shared
        self._drawn: set[tuple[str, int]] = set()

    def blocks(self, room: int) -> list[Block]:
        """Return the boxes, the last of which may be a fan of branches, for a width of `room` columns."""
        return [box(source_kind(self._pipeline.source).shown(self._pipeline.source)), *self._after(DECODER, room)]

    def _after(self, index: int, room: int, *, many: bool = False) -> list[Block]:
        """Return what follows a step; `many` if a double line leads to it."""
        ways = [way for target in self._pipeline.after(index) for way in _one_by_one(target)]
        if not ways:
            text = "○ no sink"
            return [Block((" " * len(text), text), entry="")]
        if len(ways) == 1:
            return self._way(ways[0], room)
        inner = room - _FAN_COLUMNS
        return [fan([as_block(self._way(way, inner), inner) for way in ways], many=many)]

    def _way(self, target: Target, room: int) -> list[Block]:
        if isinstance(target, int):
            return self._from_step(target, room)
        return self._sink(target.sinks[0], room) if target.choose is None else self._chosen(target, room)

    def _from_step(self, index: int, room: int) -> list[Block]:
        step = self._pipeline.steps[index]
        if self._is_drawn("step", index):
            return [box([step.name, _ABOVE], last=True, widest=_widest(room))]
        many = _makes_many(step)
        drawn = box(_texts(step, self._shared), many=many, widest=_widest(room))
        return [drawn, *self._after(index, room, many=many)]

    def _chosen(self, group: SinkGroup, room: int) -> list[Block]:
        name = bare_label(group.choose)
        if self._is_drawn("choose", group.sinks[0]):
            return [box([name, _ABOVE], last=True, widest=_widest(room))]
        sinks = [block for number in group.sinks for block in self._sink(number, room - _FAN_COLUMNS)]
        return [box([name, "chooses sinks"], widest=_widest(room)), fan(sinks) if len(sinks) > 1 else sinks[0]]

    def _sink(self, number: int, room: int) -> list[Block]:
        sink = self._pipeline.sinks[number]
        texts = [f"“{name}”"] if (name := sink_name(sink)) else []
        texts += [_ABOVE] if texts and self._is_drawn("sink", number) else sink_kind(sink).shown(sink)
        return [box(texts, last=True, widest=_widest(room + _TURN_COLUMNS))]

    def _is_drawn(self, kind: str, number: int) -> bool:
        """Return whether something is already drawn, and mark it as drawn."""
        drawn = (kind, number) in self._drawn
        self._drawn.add((kind, number))
        return drawn


def _one_by_one(target: Target) -> list[Target]:
    """Return sinks that all get every output as separate targets."""
    if isinstance(target, int) or target.choose is not None:
        return [target]
    return [SinkGroup((number,)) for number in target.sinks]


def _texts(step: Step, shared: set[str]) -> Iterator[str]:
    yield step.name
    if isinstance(step, KeyBy):
        yield "one key for all" if step.target is None else "gives the key"
    if _makes_many(step):
        yield "1 ⇉ many"
    if isinstance(step, StateComputation):
        mark = _SHARED if step.state.name in shared else _OWN
        # A state that a computation brings with it has the computation's name.
        if step.state.name == step.name:
            yield f"{mark} {_extent(step.state)}"
        else:
            yield from (f"{mark} {step.state.name}", _extent(step.state))


def _makes_many(step: Step) -> bool:
    return not isinstance(step, KeyBy) and step.multi


def _extent(state: State) -> str:
    if not state.partitioned:
        return "one object"
    if state.keys is None:
        return "by key (any key)"
    return f"by key ({len(state.keys):,} {'key' if len(state.keys) == 1 else 'keys'})"


_WIDEST_TEXT = 28
_NARROWEST_TEXT = 6
_FAN_COLUMNS = 7
"""The columns that a fan in a row of its own takes from its branches."""
_TURN_COLUMNS = 3
"""The columns of the line that continues below."""
_ABOVE = "(see above)"


def _widest(room: int) -> int:
    """Return the maximum text width in a box that starts a row and whose line continues below."""
    return max(_NARROWEST_TEXT, min(_WIDEST_TEXT, room - 11))


@dataclass(frozen=True)
class Block:
    """Lines of equal width. The connecting line enters and leaves at the second of them.

    `entry` is the end of the incoming line; `many` makes the outgoing line a double one.
    """

    lines: tuple[str, ...]
    entry: str = "▶"
    many: bool = False

    @property
    def width(self) -> int:
        """The number of columns."""
        return columns(self.lines[0])


def columns(text: str) -> int:
    """Return how many terminal columns a text takes.

    >>> columns("word"), columns("単語"), columns("e\u0301")
    (4, 4, 1)
    """
    # Lines are measured again in each fan around them, and most have nothing but these characters.
    if _OF_ONE_COLUMN.fullmatch(text):
        return len(text)
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text
    )


def wrapped(text: str, width: int) -> list[str]:
    """Return the words of a text in lines of at most `width` columns; longer words are split.

    >>> wrapped("split into words", 10), wrapped("unpronounceable", 8)
    (['split into', 'words'], ['unpronou', 'nceable'])
    """
    lines = [""]
    for word in _shown(text).split():
        for piece in _pieces(word, width):
            longer = f"{lines[-1]} {piece}" if lines[-1] else piece
            if columns(longer) <= width:
                lines[-1] = longer
            else:
                lines.append(piece)
    return lines


def _shown(text: str) -> str:
    """Return the text with a placeholder for characters that would move the cursor or show nothing."""
    return "".join(each if each.isprintable() or each.isspace() else "\N{REPLACEMENT CHARACTER}" for each in text)


def _pieces(word: str, width: int) -> Iterator[str]:
    piece = ""
    for each in word:
        if piece and columns(piece + each) > width:
            yield piece
            piece = ""
        piece += each
    yield piece


def box(texts: Iterable[str], *, last: bool = False, many: bool = False, widest: int = _WIDEST_TEXT) -> Block:
    r"""Return texts in a box; all but the `last` box of a line have an outgoing connector.

    >>> print(*box(["Count Word", "by key"]).lines, sep="\n")
    ╭────────────╮
    │ Count Word ├
    │ by key     │
    ╰────────────╯
    """
    lines = [line for text in texts for line in wrapped(text, widest)]
    inner = max(map(columns, lines))
    way_out = "│" if last else "╞" if many else "├"
    sides = [way_out, *"│" * (len(lines) - 1)]
    middle = [f"│ {_filled(line, inner)} {side}" for line, side in zip(lines, sides, strict=True)]
    edge = "─" * (inner + 2)
    return Block((f"╭{edge}╮", *middle, f"╰{edge}╯"), many=many)


def fan(blocks: Sequence[Block], *, many: bool = False) -> Block:
    """Return blocks stacked vertically, with the incoming line (double if `many`) leading to each of them."""
    lines = []
    last = len(blocks) - 1
    width = max(block.width for block in blocks)
    for number, block in enumerate(blocks):
        branch = "╰" if number == last else "├" if number else "╤" if many else "┬"
        above, below = " │"[number > 0], " │"[number < last]
        stems = [f"{above}   ", f"{branch}──{block.entry}", *[f"{below}   "] * (len(block.lines) - 2)]
        lines += [stem + _filled(line, width) for stem, line in zip(stems, block.lines, strict=True)]
    return Block(tuple(lines), entry="")


def as_block(blocks: Sequence[Block], width: int) -> Block:
    """Return blocks from left to right as a single block, at most `width` columns wide."""
    lines = chained(blocks, width)
    widest = max(map(columns, lines))
    return Block(tuple(_filled(line, widest) for line in lines), blocks[0].entry)


def chained(blocks: Sequence[Block], width: int) -> list[str]:
    r"""Return blocks from left to right, joined by lines; when `width` is used up, they continue below.

    >>> print(*chained([box(["one"]), box(["two"]), box(["three"], last=True)], 24), sep="\n")
    ╭─────╮   ╭─────╮
    │ one ├──▶│ two ├──╮
    ╰─────╯   ╰─────╯  │
    ╭──────────────────╯
    │   ╭───────╮
    ╰──▶│ three │
        ╰───────╯
    """
    *rows, last = _rows(blocks, width)
    lines: list[str] = []
    before: Block | None = None
    for row in rows:
        height = max(len(block.lines) for block in row)
        turn = ["", "══╕" if row[-1].many else "──╮", *["  │"] * (height - 2)]
        drawn = _beside([*_joined(row, before), turn])
        lines += [*drawn, "╭" + "─" * (columns(drawn[1]) - 2) + "╯"]
        before = row[-1]
    return lines + _beside(_joined(last, before))


def _joined(row: Sequence[Block], before: Block | None) -> list[Sequence[str]]:
    """Return the blocks of a row with the lines between them, and the line from the previous row."""
    parts: list[Sequence[str]] = []
    if before is not None:
        corner = "╘══" if before.many else "╰──"
        parts += [["│", corner + row[0].entry]]
    parts += [row[0].lines]
    for one, other in pairwise(row):
        parts += [["", ("══" if one.many else "──") + other.entry], other.lines]
    return parts


def _rows(blocks: Sequence[Block], width: int) -> Iterator[list[Block]]:
    """Yield the blocks of each row: as many as fit."""
    row = [blocks[0]]
    used = blocks[0].width
    for number, block in enumerate(blocks[1:], start=2):
        joined = 2 + columns(block.entry) + block.width
        # Any block but the last may need room for the turn to the next row.
        turn = 0 if number == len(blocks) else 3
        if used + joined + turn > width:
            yield row
            row, used = [], 1
        row.append(block)
        used += joined
    yield row


def _beside(parts: Sequence[Sequence[str]]) -> list[str]:
    height = max(map(len, parts))
    filled = []
    for part in parts:
        width = max(map(columns, part))
        filled.append([_filled(line, width) for line in part] + [" " * width] * (height - len(part)))
    return ["".join(pieces).rstrip() for pieces in zip(*filled, strict=True)]


def _filled(text: str, width: int) -> str:
    return text + " " * (width - columns(text))
