"""What the ingress process is told when it starts."""

from __future__ import annotations

import json
import pickle
import sys
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import cloudpickle

from wallaroo.errors import WallarooError
from wallaroo.ingress.limits import Limits
from wallaroo.ingress.log import SEGMENT_BYTES
from wallaroo.precedence import prefer, preferred


@dataclass(frozen=True)
class SourceEndpoint:
    """Where a source listens (port 0: any free one), how its bytes are framed and where its log is kept.

    `name` is the pipeline's. `decoder` may be a class: an instance is then made in the ingress process.
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
    `segment_bytes`, and fewer where the log's limit is small. `sys_path` is where the decoders' modules are
    found, and `preferred` which of them come from where before that.
    """

    sources: list[SourceEndpoint]
    control_path: str
    token: str = field(repr=False)
    limits: Limits = field(default_factory=Limits)
    sequence: str = ""
    """The folder of the sequence; without one, nothing is put into an order."""
    known_block: int = 0
    """No block gets a number below this: the application has seen those."""
    workers_host: str = ""
    """Where workers on other machines are waited for (`wallaroo.ingress.for_workers`); nowhere, if it is empty."""
    workers_port: int = 0
    epoch_seconds: float = 60.0
    segment_bytes: int = SEGMENT_BYTES
    sys_path: list[str] = field(default_factory=lambda: list(sys.path))
    preferred: list[tuple[str, str]] = field(default_factory=preferred)


def dump_config(config: IngressConfig) -> bytes:
    """Return a configuration as bytes: a line of JSON with what must be known to read the pickle after it.

    Raises:
        WallarooError: A decoder cannot be pickled.
    """
    try:
        body: bytes = cloudpickle.dumps(config)
    except Exception as error:
        raise WallarooError(_why_not(config, error)) from error
    header = json.dumps({"sys_path": config.sys_path, "preferred": config.preferred, "size": len(body)})
    return header.encode() + b"\n" + body


def load_config(stream: BinaryIO) -> IngressConfig:
    """Read a configuration; takes over the writer's module path, without which decoders cannot be found."""
    header = json.loads(stream.readline())
    # Behind the writer's path comes our own, which may know the way to this very package.
    sys.path[:] = dict.fromkeys([*header["sys_path"], *sys.path])
    prefer(header["preferred"])
    config: IngressConfig = pickle.loads(stream.read(header["size"]))
    return config


def _why_not(config: IngressConfig, error: Exception) -> str:
    for source in config.sources:
        try:
            cloudpickle.dumps(source.decoder)
        except Exception as cause:  # noqa: BLE001 - whatever a user's object raises when it is pickled.
            return (
                f"Pipeline {source.name!r}: the decoder cannot be sent to the process that accepts "
                f"connections ({cause}). Pass its class instead of an instance, or create what cannot be "
                f"pickled (a lock, a file, a Struct) when it is first used."
            )
    return f"The sources cannot be sent to the process that accepts connections: {error}"
