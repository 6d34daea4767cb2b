"""Finds the connector for a config: the only module that knows all connectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wallaroo.connectors.dead_letter_replay.kind import ReplayKind
from wallaroo.connectors.generator.kind import GeneratorKind
from wallaroo.connectors.kafka.kind import KafkaSinkKind, KafkaSourceKind
from wallaroo.connectors.tcp.kind import TcpSinkKind, TcpSourceKind
from wallaroo.introspection import a_kind_of

if TYPE_CHECKING:
    from wallaroo.connectors.base import SinkKind, SourceKind

SOURCES: list[SourceKind] = [TcpSourceKind(), KafkaSourceKind(), GeneratorKind(), ReplayKind()]
SINKS: list[SinkKind] = [TcpSinkKind(), KafkaSinkKind()]


def is_source(config: Any) -> bool:
    """Return whether this is the config of a source."""
    return any(isinstance(config, kind.config_class) for kind in SOURCES)


def is_sink(config: Any) -> bool:
    """Return whether this is the config of a sink."""
    return any(isinstance(config, kind.config_class) for kind in SINKS)


def source_kind(config: Any) -> SourceKind:
    """Return the kind of a source; every source of an application that could be built has one."""
    for kind in SOURCES:
        if isinstance(config, kind.config_class):
            return kind
    raise TypeError(f"no kind of source has configs such as {a_kind_of(config)}")


def sink_kind(config: Any) -> SinkKind:
    """Return the kind of a sink; every sink of an application that could be built has one."""
    for kind in SINKS:
        if isinstance(config, kind.config_class):
            return kind
    raise TypeError(f"no kind of sink has configs such as {a_kind_of(config)}")


def source_kind_called(name: str) -> SourceKind:
    """Return the kind of source with this name.

    >>> source_kind_called("tcp").nature
    'has a decoder'
    """
    return {kind.name: kind for kind in SOURCES}[name]
