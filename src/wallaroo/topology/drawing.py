"""Draws an application: each pipeline from its source through its steps to its sinks, in plain text."""

from __future__ import annotations

from collections.abc import Iterator

from wallaroo.connectors.kinds import sink_kind, source_kind
from wallaroo.topology.boxes import Block, box, chained, fan, wrapped
from wallaroo.topology.model import Application, KeyBy, Pipeline, State, StateComputation, Step

_MARGIN = "  "
_SHARED, _OWN = "◆", "◇"


def draw(application: Application, width: int = 100) -> str:
    """Return a drawing of the application that is at most `width` columns wide, which must be 41 or more.

    A double line leaves steps that make any number of outputs of one message. `◆` marks a state that several
    pipelines share; below the pipelines stands who shares it.

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
        drawn = [*wrapped(pipeline.name, room), *chained(list(_blocks(pipeline, shared)), room)]
        lines += ["", *(_MARGIN + line for line in drawn)]
    legend = [line for name in users if name in shared for line in _legend(name, users[name], width)]
    return "\n".join([*lines, "", *legend] if legend else lines)


def _users_of_states(application: Application) -> dict[str, list[tuple[str, str]]]:
    """Return for each state the pipelines and steps that use it, in the order of declaration."""
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


def _blocks(pipeline: Pipeline, shared: set[str]) -> Iterator[Block]:
    yield box(source_kind(pipeline.source).shown(pipeline.source))
    for step in pipeline.steps:
        yield box(_texts(step, shared), many=_makes_many(step))
    many = bool(pipeline.steps) and _makes_many(pipeline.steps[-1])
    sinks = [box(sink_kind(sink).shown(sink), last=True) for sink in pipeline.sinks]
    if len(sinks) > 1:
        yield fan(sinks, many=many)
    elif sinks:
        yield sinks[0]
    else:
        text = "○ no sink"
        yield Block((" " * len(text), text), entry="")


def _texts(step: Step, shared: set[str]) -> Iterator[str]:
    yield step.name
    if isinstance(step, KeyBy):
        yield "one key for all" if step.target is None else "gives the key"
    if _makes_many(step):
        yield "1 ⇉ many"
    if isinstance(step, StateComputation):
        mark = _SHARED if step.state.name in shared else _OWN
        # A computation that brings its own state is called as that is.
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
