"""Finds the connector for a config, among all packages beside this module."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from wallaroo import connectors
from wallaroo.connectors.base import SinkKind, SourceKind
from wallaroo.introspection import a_kind_of

if TYPE_CHECKING:
    from wallaroo.connectors.base import Packer


def _kinds() -> Iterator[SourceKind | SinkKind]:
    """Yield the kinds of each connector: the `KINDS` in the module `kind` of its package."""
    for package in iter_modules(connectors.__path__):
        if package.ispkg:
            yield from import_module(f"{connectors.__name__}.{package.name}.kind").KINDS


KINDS = list(_kinds())
SOURCES = [kind for kind in KINDS if isinstance(kind, SourceKind)]
SINKS = [kind for kind in KINDS if isinstance(kind, SinkKind)]


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


def packer_of(config: Any) -> Packer | None:
    """Return what packs the results of a sink's encoder, if its kind has such; the sinks of tests have no kind."""
    return sink_kind(config).packer(config) if is_sink(config) else None


def source_kind_called(name: str) -> SourceKind:
    """Return the kind of source with this name.

    >>> source_kind_called("tcp").nature
    'has a decoder'
    """
    return {kind.name: kind for kind in SOURCES}[name]
