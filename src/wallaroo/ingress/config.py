"""The configuration of the ingress process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, BinaryIO

from wallaroo.connectors.registry import source_kind
from wallaroo.ingress.lanes import Lane, dump_ends, ends_by_source, load_ends
from wallaroo.ingress.limits import Limits
from wallaroo.ingress.log import SEGMENT_BYTES
from wallaroo.interfaces import SourceConfig
from wallaroo.program import Instructions, build

EPOCH_SECONDS = 60.0


@dataclass(frozen=True)
class SourceEndpoint:
    """A source: its kind, the kind's description of it (`SourceKind.place`), and the folder of its log.

    A source without a log keeps its own files in that folder.

    `name` is the pipeline's. `config` is not serialized: it contains user code, and the ingress process takes it from
    the application that it builds. No message gets an index below the one of its lane in `known`: the application has
    already seen those.
    """

    name: str
    kind: str
    place: Mapping[str, Any]
    log_directory: str
    config: Any = None
    known: Mapping[int, int] = field(default_factory=dict)


def endpoint_of(name: str, config: Any, log_directory: str, known: Mapping[int, int] | None = None) -> SourceEndpoint:
    """Return the endpoint of a source with this config."""
    kind = source_kind(config)
    return SourceEndpoint(name, kind.name, kind.place(config), log_directory, config, known or {})


@dataclass(frozen=True)
class IngressConfig:
    """Everything the ingress process needs to know.

    Clients of the control socket at `control_path` authenticate with `token`. A segment of a log has at most about
    `segment_bytes`, and fewer if the log's limit is small.
    """

    sources: list[SourceEndpoint]
    control_path: str
    token: str = field(repr=False)
    sequence: str
    """The folder of the sequence."""
    limits: Limits = field(default_factory=Limits)
    known_block: int = 0
    """No block gets a number below this: the application has already seen those."""
    epoch_seconds: float = EPOCH_SECONDS
    """The longest time between two commits."""
    workers_host: str = ""
    """Where to listen for workers on other machines (`wallaroo.ingress.worker_server`); empty if there are none."""
    workers_port: int = 0
    segment_bytes: int = SEGMENT_BYTES
    program: Instructions | None = None
    """How to build the application, which has the decoders; not needed if no source has one."""


def dump_config(config: IngressConfig) -> bytes:
    """Return a configuration as a line of JSON."""
    values = _plain(config, {"sources", "limits"})
    values["sources"] = [_plain(source, {"config", "known"}) for source in config.sources]
    values["known"] = dump_ends(
        {Lane(source.name, lane): end for source in config.sources for lane, end in source.known.items()}
    )
    values["limits"] = {**_plain(config.limits, {"chosen"}), "chosen": sorted(config.limits.chosen)}
    return json.dumps(values).encode() + b"\n"


def load_config(stream: BinaryIO) -> IngressConfig:
    """Read a configuration, and build the application whose decoders it needs.

    Raises:
        ApplicationError: The application cannot be built, or differs from the one that machida has built.
    """
    values = json.loads(stream.readline())
    limits = values.pop("limits")
    limits = Limits(**{**limits, "chosen": frozenset(limits["chosen"])})
    configs = _configs_of(values["program"])
    known = ends_by_source(load_ends(values.pop("known")))
    # Not every source belongs to a pipeline: the one for replayed dead letters does not, and has no user code.
    sources = [
        SourceEndpoint(config=configs.get(source["name"]), known=known.get(source["name"], {}), **source)
        for source in values.pop("sources")
    ]
    return IngressConfig(sources=sources, limits=limits, **values)


def _plain(thing: Any, but: set[str]) -> dict[str, Any]:
    return {each.name: getattr(thing, each.name) for each in fields(thing) if each.name not in but}


def _configs_of(program: Instructions | None) -> Mapping[str, SourceConfig]:
    """Return the configs of the application's sources, by the names of their pipelines."""
    if program is None:
        return {}
    application, _ = build(program, "the process that accepts connections")
    return {pipeline.name: pipeline.source for pipeline in application.pipelines}
