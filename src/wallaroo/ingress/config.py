"""What the ingress process is told when it starts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, BinaryIO

from wallaroo.api.generators import PickleDecoder
from wallaroo.ingress.limits import Limits
from wallaroo.ingress.log import SEGMENT_BYTES
from wallaroo.program import Instructions, build
from wallaroo.topology.model import SourceConfig

EPOCH_SECONDS = 60.0


@dataclass(frozen=True)
class SourceEndpoint:
    """Where a source listens (port 0: any free one), how its bytes are framed and where its log is kept.

    `name` is the pipeline's. `decoder` may be a class: an instance is then made when it is needed. It does not travel,
    nor does `generator`: the ingress process takes them from the application that it builds.
    A source with a `generator` does not listen: it makes its messages itself. Nor does one with a `queue`, the file
    of dead letters that are to be replayed. No message gets a number below `known`: the application has had those.
    """

    name: str
    host: str
    port: int
    decoder: Any
    log_directory: str
    generator: Any = None
    queue: str = ""
    known: int = 0


@dataclass(frozen=True)
class IngressConfig:
    """Everything the ingress process needs to know.

    Whoever knows `token` may use the control socket at `control_path`. A segment of a log has at most about
    `segment_bytes`, and fewer where the log's limit is small.
    """

    sources: list[SourceEndpoint]
    control_path: str
    token: str = field(repr=False)
    sequence: str
    """The folder of the sequence."""
    limits: Limits = field(default_factory=Limits)
    known_block: int = 0
    """No block gets a number below this: the application has seen those."""
    epoch_seconds: float = EPOCH_SECONDS
    """The longest time between two commits."""
    workers_host: str = ""
    """Where workers on other machines are waited for (`wallaroo.ingress.for_workers`); nowhere, if it is empty."""
    workers_port: int = 0
    segment_bytes: int = SEGMENT_BYTES
    program: Instructions | None = None
    """How the application is built, which has the decoders; not needed where no source has one."""


def dump_config(config: IngressConfig) -> bytes:
    """Return a configuration as a line of JSON."""
    told = _plain(config, {"sources", "limits"})
    told["sources"] = [_plain(source, {"decoder", "generator"}) for source in config.sources]
    told["limits"] = {**_plain(config.limits, {"chosen"}), "chosen": sorted(config.limits.chosen)}
    return json.dumps(told).encode() + b"\n"


def load_config(stream: BinaryIO) -> IngressConfig:
    """Read a configuration, and build the application whose decoders it needs.

    Raises:
        ApplicationError: The application cannot be built, or is not the one that machida has.
    """
    told = json.loads(stream.readline())
    limits = told.pop("limits")
    limits = Limits(**{**limits, "chosen": frozenset(limits["chosen"])})
    endpoints = [SourceEndpoint(decoder=PickleDecoder, **source) for source in told.pop("sources")]
    code = _sources_of(told["program"])
    sources = [_with_code(endpoint, code) for endpoint in endpoints]
    return IngressConfig(sources=sources, limits=limits, **told)


def _plain(thing: Any, but: set[str]) -> dict[str, Any]:
    return {each.name: getattr(thing, each.name) for each in fields(thing) if each.name not in but}


def _sources_of(program: Instructions | None) -> Mapping[str, SourceConfig]:
    """Return the sources of the application's pipelines, by their names."""
    if program is None:
        return {}
    application, _ = build(program, "the process that accepts connections")
    return {pipeline.name: pipeline.source for pipeline in application.pipelines}


def _with_code(endpoint: SourceEndpoint, sources: Mapping[str, SourceConfig]) -> SourceEndpoint:
    """Return an endpoint with the decoder of its source, or the generator."""
    if endpoint.queue:
        return endpoint
    source = sources[endpoint.name]
    return replace(endpoint, decoder=source.decoder, generator=getattr(source, "generator", None))
