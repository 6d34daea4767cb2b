"""A description of an application by which two processes that have built it can check that they agree."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from wallaroo.connectors.registry import source_kind
from wallaroo.sizes import plural
from wallaroo.topology.model import Application, KeyBy, Pipeline, SinkGroup, State, StateComputation, Step, sink_name

_PLAIN = {str, bytes, int, float, bool, type(None)}

Description = Mapping[str, Any]
"""Consists of JSON types only."""


def describe(application: Application) -> Description:
    """Return what must be the same in all processes; addresses may differ, as only one process uses them."""
    return {"name": application.name, "pipelines": [_pipeline(pipeline) for pipeline in application.pipelines]}


def _pipeline(pipeline: Pipeline) -> Description:
    return {
        "name": pipeline.name,
        "source": source_kind(pipeline.source).nature,
        "steps": [_step(step) for step in pipeline.steps],
        "sinks": [sink_name(sink) for sink in pipeline.sinks],
        "ways": [[_target(each) for each in targets] for targets in pipeline.ways],
    }


def _target(target: int | SinkGroup) -> list[Any]:
    if isinstance(target, int):
        return ["step", target]
    return ["sinks", *target.sinks, *([] if target.choose is None else ["chosen"])]


def _step(step: Step) -> str:
    if isinstance(step, KeyBy):
        return f"{step.name!r}"
    many = " with lists of outputs" if step.multi else ""
    if isinstance(step, StateComputation):
        return f"the state computation {step.name!r}{many} on {_state(step.state)}"
    return f"the computation {step.name!r}{many}"


def _state(state: State) -> str:
    extent = "one object" if not state.partitioned else "any key" if state.keys is None else _keys(state.keys)
    return f"the state {state.name!r} ({extent})"


def _keys(keys: frozenset[Any]) -> str:
    """Return the number of keys, and a checksum of them.

    >>> _keys(frozenset("ab")), _keys(frozenset("a"))
    ('2 keys with the checksum d07ba322', '1 key with the checksum 89cb9e70')
    """
    return f"{plural(len(keys), 'key')} with the checksum {zlib.crc32(repr(sorted(map(_shown, keys))).encode()):08x}"


def _shown(key: Any) -> str:
    """Return a text for a key that is the same in every process: the `repr` of other objects may have an address."""
    if type(key) is tuple:
        return f"({', '.join(map(_shown, key))})"
    return repr(key) if type(key) in _PLAIN else type(key).__qualname__


def differences(here: Description, there: Description) -> Iterator[str]:
    """Yield each difference in words that can follow "application_setup"; `there` is the description from machida.

    >>> pipeline = {"name": "p", "source": "has a decoder", "steps": [], "sinks": [None], "ways": []}
    >>> there = {"name": "A", "pipelines": [pipeline]}
    >>> here = {"name": "A", "pipelines": [{**pipeline, "sinks": [None, None]}]}
    >>> list(differences(here, there))
    ["gave the pipeline 'p' 2 sinks, and 1 in machida"]
    """
    if here["name"] != there["name"]:
        yield f"called the application {here['name']!r}, and {there['name']!r} in machida"
    mine, others = ([pipeline["name"] for pipeline in each["pipelines"]] for each in (here, there))
    if mine != others:
        yield f"made the pipelines {_listed(mine)}, and {_listed(others)} in machida"
        return
    for one, other in zip(here["pipelines"], there["pipelines"], strict=True):
        yield from _of_pipeline(one, other)


def _of_pipeline(here: Description, there: Description) -> Iterator[str]:
    name = here["name"]
    if here["source"] != there["source"]:
        yield f"gave the pipeline {name!r} a source that {here['source']}, and one that {there['source']} in machida"
    if len(here["steps"]) != len(there["steps"]):
        yield f"gave the pipeline {name!r} {_count(len(here['steps']), 'step')}, and {len(there['steps'])} in machida"
    else:
        for number, (one, other) in enumerate(zip(here["steps"], there["steps"], strict=True), 1):
            if one != other:
                yield f"gave the pipeline {name!r} as step {number} {one}, and {other} in machida"
    yield from _of_ways(here, there)


def _of_ways(here: Description, there: Description) -> Iterator[str]:
    name = here["name"]
    mine, others = here["sinks"], there["sinks"]
    if len(mine) != len(others):
        yield f"gave the pipeline {name!r} {_count(len(mine), 'sink')}, and {len(others)} in machida"
    elif mine != others:
        yield f"called the sinks of the pipeline {name!r} {_listed(mine)}, and {_listed(others)} in machida"
    elif len(here["steps"]) == len(there["steps"]) and here["ways"] != there["ways"]:
        yield f"joined the steps and sinks of the pipeline {name!r} in another way than in machida"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _listed(names: list[str | None]) -> str:
    return ", ".join("(no name)" if name is None else repr(name) for name in names)
