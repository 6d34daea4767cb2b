"""Checks of the sources and sinks of an application, by their kinds. Checks yield one sentence per mistake."""

from __future__ import annotations

import inspect
from itertools import combinations
from typing import TYPE_CHECKING, Any

from wallaroo.addresses import clash
from wallaroo.connectors.registry import is_sink, is_source, sink_kind, source_kind
from wallaroo.introspection import a_kind_of, accepts, call_text, deferred_mistakes, label
from wallaroo.topology.model import sink_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wallaroo.topology.model import Pipeline

_A_SOURCE = "wallaroo.TCPSourceConfig(host, port, decoder)"
_A_SINK = "wallaroo.TCPSinkConfig(host, port, encoder)"


def source_mistakes(config: Any) -> Iterator[str]:
    """Check the source given to `new_pipeline`."""
    if is_source(config):
        yield from source_kind(config).mistakes(config)
    else:
        hint = "that is a sink, " if is_sink(config) else _unknown_name(config, "source")
        yield f"the source must be a source config; got {a_kind_of(config)}: {hint}write {_A_SOURCE}"


def sink_mistakes(config: Any) -> Iterator[str]:
    """Check one sink of `to_sink` or `to_sinks`."""
    if is_sink(config):
        yield from sink_kind(config).mistakes(config)
    else:
        hint = "that is a source, " if is_source(config) else _unknown_name(config, "sink")
        yield f"a sink must be a sink config; got {a_kind_of(config)}: {hint}write {_A_SINK}"


def _unknown_name(config: Any, role: str) -> str:
    """Return what to do where a name is given that no connector has; an address is no name."""
    if not isinstance(config, str) or ":" in config:
        return ""
    return f"no {role} connector has this name: declare it with wallaroo.{role}_connector, or "


def sink_list_mistakes(configs: Any) -> Iterator[str]:
    """Check the list given to `to_sinks`, but not the sinks themselves."""
    if not isinstance(configs, list | tuple):
        yield f"to_sinks needs a list of sinks; got {a_kind_of(configs)}: write to_sinks([{_A_SINK}, ...])"
    elif not configs:
        yield f"to_sinks got an empty list: write to_sinks([{_A_SINK}, ...]), or leave it out to send nothing"


def choose_mistakes(choose: Any, sinks: Sequence[Any]) -> Iterator[str]:
    """Check the `choose` given to `to_sinks`, and that it can name each of these sinks."""
    if inspect.isclass(choose) or not callable(choose):
        yield (
            f"choose must be a function that is given an output and returns the name of a sink; got {a_kind_of(choose)}"
        )
    elif not accepts(choose, 1):
        yield (
            f"choose must allow 1 argument, as in choose(output); it is written as {call_text(choose, label(choose))}"
        )
    else:
        yield from deferred_mistakes(choose, f"choose, {label(choose)},", "write `return`, with a list of names")
    for number, sink in enumerate(sinks, 1):
        if is_sink(sink) and getattr(sink, "name", None) is None:
            yield (
                f"sink {number} of {len(sinks)} has no name, by which choose could pick it: write "
                f'wallaroo.{type(sink).__name__}(..., name="sink name")'
            )


def sink_name_mistakes(pipelines: Sequence[Pipeline]) -> Iterator[str]:
    """Check that no two sinks of a pipeline have the same name."""
    for pipeline in pipelines:
        for name in dict.fromkeys(filter(None, map(sink_name, pipeline.sinks))):
            numbers = {number for number, sink in enumerate(pipeline.sinks) if sink_name(sink) == name}
            configs = {id(pipeline.sinks[number]) for number in numbers}
            # One config may end several branches.
            if len(configs) > 1 or any(len(numbers.intersection(group.sinks)) > 1 for group in pipeline.sink_groups):
                yield f"pipeline {pipeline.name!r}: two sinks are called {name!r}: give each sink a name of its own"


def shared_sink_mistakes(pipelines: Sequence[Pipeline]) -> Iterator[str]:
    """Check that no two sinks of the application exclude each other."""
    sinks = {id(sink): (pipeline.name, sink) for pipeline in pipelines for sink in pipeline.sinks if is_sink(sink)}
    for (one, sink), (other, same) in combinations(sinks.values(), 2):
        kind = sink_kind(sink)
        if kind is sink_kind(same) and (why := kind.conflict(sink, same)) is not None:
            yield f"a sink of pipeline {one!r} and one of {other!r} {why}"


def listening_mistakes(pipelines: Sequence[Pipeline]) -> Iterator[str]:
    """Check that no two sources listen on the same address."""
    listening = [
        (pipeline.name, address)
        for pipeline in pipelines
        if is_source(pipeline.source)
        and (address := source_kind(pipeline.source).listens_on(pipeline.source)) is not None
    ]
    for (one, address), (other, same) in combinations(listening, 2):
        if clash(address, same):
            yield (
                f"the pipelines {one!r} and {other!r} both listen on {address[0]}:{address[1]}: "
                "give each source a port of its own"
            )
