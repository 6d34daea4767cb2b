"""TCP sources and sinks: the configs that users write, and the kinds that describe them."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

from wallaroo.connectors.address_config import AddressConfig, address_mistakes, check_receiver, shown_address
from wallaroo.connectors.base import LoggedKind, SinkKind
from wallaroo.connectors.config_checks import (
    decoder_mistakes,
    encoder_mistakes,
    sink_name_mistakes,
    source_name_mistakes,
)
from wallaroo.errors import WallarooParameterError
from wallaroo.introspection import a_kind_of, bare_label, label

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wallaroo.connectors.base import Intake, IntakeContext, SinkConnection, SinkContext, SourceLog
    from wallaroo.interfaces import Decoder, Encoder


class TCPSourceConfig(AddressConfig):
    """A source that listens on a TCP address and receives messages from the senders that connect.

    It is written `TCPSourceConfig(host, port, decoder)`, optionally followed by `parallelism`, or, with a name first,
    `TCPSourceConfig(name, host, port, decoder)`, optionally followed by the other arguments. The arguments are stored
    as given; building the application reports what is wrong with them.

    Args:
        name: The name of the source; it is not used, as the pipeline's name identifies a source.
        host: The address to listen on.
        port: The port to listen on, as a string or a number; 0 lets the system pick a free one.
        decoder: Frames and decodes the bytes: made with `@wallaroo.decoder`, or an object with
            `header_length`, `payload_length` and `decode`, or, if each message is a line, with `framing = "lines"`
            and `decode`.
        valid: Accepted for programs that pass it, like the arguments below, and has no effect. Any number of senders
            may connect at once here, and bytes are read as they arrive.
        parallelism: The number of senders that the original listened to at once.
        max_size: The number of bytes that the original read at once.
        max_received_count: The number of messages that the original accepted at once.

    >>> import wallaroo
    >>> @wallaroo.decoder
    ... def decode(bs):
    ...     return bs.decode()
    >>> config = TCPSourceConfig("127.0.0.1", "7010", decode)
    >>> config
    TCPSourceConfig(host='127.0.0.1', port='7010', decoder=<@wallaroo.decoder 'decode'>)
    >>> config.address
    ('127.0.0.1', 7010)
    >>> TCPSourceConfig("orders", "127.0.0.1", "7010", decode).name
    'orders'
    """

    @overload
    def __init__(self, host: str, port: str | int, decoder: Decoder, parallelism: int = 10) -> None: ...
    @overload
    def __init__(
        self,
        name: str,
        host: str,
        port: str | int,
        decoder: Decoder,
        valid: bool = True,  # noqa: FBT001, FBT002
        parallelism: int = 10,
        max_size: int = 16384,
        max_received_count: int = 50,
    ) -> None: ...
    def __init__(self, *arguments: Any, **named: Any) -> None:
        given = _source_arguments(arguments, named)
        super().__init__(given["host"], given["port"])
        self.name: str | None = given.get("name")
        self.decoder: Decoder = given["decoder"]
        self.valid: bool = given.get("valid", True)
        self.parallelism: int = given.get("parallelism", 10)
        self.max_size: int = given.get("max_size", 16384)
        self.max_received_count: int = given.get("max_received_count", 50)

    def __repr__(self) -> str:
        name = "" if self.name is None else f"name={self.name!r}, "
        return f"TCPSourceConfig({name}host={self.host!r}, port={self.port!r}, decoder={self.decoder!r})"


_AFTER_THE_DECODER = ("valid", "parallelism", "max_size", "max_received_count")


def _source_arguments(arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments by name, given in either form."""
    without_name = _signature("host", "port", "decoder", optional=("parallelism",))
    with_name = _signature("name", "host", "port", "decoder", optional=_AFTER_THE_DECODER)
    # Four arguments fit both signatures. The fourth decides: a degree of parallelism is a number, a decoder is not.
    is_number = len(arguments) == 4 and isinstance(arguments[3], int)
    for signature in (without_name, with_name) if is_number else (with_name, without_name):
        try:
            return signature.bind(*arguments, **named).arguments
        except TypeError:
            continue
    shown = ", ".join([*map(label, arguments), *(f"{name}={label(value)}" for name, value in named.items())])
    raise WallarooParameterError(
        "TCPSourceConfig takes (host, port, decoder), or (name, host, port, decoder), optionally followed by "
        f"parallelism or {', '.join(_AFTER_THE_DECODER)}; got ({shown})."
    )


def _signature(*names: str, optional: tuple[str, ...]) -> inspect.Signature:
    either = inspect.Parameter.POSITIONAL_OR_KEYWORD
    needed = [inspect.Parameter(name, either) for name in names]
    return inspect.Signature([*needed, *(inspect.Parameter(name, either, default=None) for name in optional)])


@dataclass(eq=False, repr=False)
class TCPSinkConfig(AddressConfig):
    """A sink that connects to a TCP address and sends it the outputs.

    The arguments are stored as given; building the application reports what is wrong with them.

    Args:
        host: The address to connect to.
        port: The port to connect to, as a string or a number.
        encoder: Turns an output into bytes: made with `@wallaroo.encoder`, or an object with `encode`.
        name: The name of the sink, by which `to_sinks(..., choose=function)` picks it; no other sink of the pipeline
            may have it.

    >>> import wallaroo
    >>> @wallaroo.encoder
    ... def encode(data):
    ...     return str(data).encode()
    >>> TCPSinkConfig("127.0.0.1", 7002, encode).address
    ('127.0.0.1', 7002)
    >>> TCPSinkConfig("127.0.0.1", 7003, encode, name="alerts")
    TCPSinkConfig(host='127.0.0.1', port=7003, encoder=<@wallaroo.encoder 'encode'>, name='alerts')
    """

    encoder: Encoder
    name: str | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        name = "" if self.name is None else f", name={self.name!r}"
        return f"TCPSinkConfig(host={self.host!r}, port={self.port!r}, encoder={self.encoder!r}{name})"


_LIMITS = ("parallelism", "max_size", "max_received_count")


class TcpSourceKind(LoggedKind):
    """Sources that listen on an address and receive messages from the senders that connect."""

    name = "tcp"
    config_class = TCPSourceConfig
    nature = "has a decoder"

    def mistakes(self, config: TCPSourceConfig) -> Iterator[str]:
        """Check the address, the name, the limits, and the decoder."""
        yield from address_mistakes(config, "source")
        yield from source_name_mistakes(config.name)
        for limit in _LIMITS:
            given = getattr(config, limit)
            if not isinstance(given, int) or isinstance(given, bool) or given < 1:
                yield f"{limit} of the source must be a whole number, 1 or more; got {a_kind_of(given)}"
        yield from decoder_mistakes(config.decoder)

    def shown(self, config: TCPSourceConfig) -> tuple[str, ...]:
        """Return the address and the decoder."""
        return shown_address("TCP", config), f"decoded by {bare_label(config.decoder)}"

    def listens_on(self, config: TCPSourceConfig) -> tuple[str, int] | None:
        """Return the address."""
        return None if any(address_mistakes(config, "source")) else config.address

    def place(self, config: TCPSourceConfig) -> dict[str, Any]:
        """Return the address."""
        host, port = config.address
        return {"host": host, "port": port}

    def intake(
        self, config: TCPSourceConfig, place: Mapping[str, Any], log: SourceLog, context: IntakeContext
    ) -> Intake:
        """Return the intake that listens."""
        from wallaroo.connectors.tcp.source import TcpSource  # noqa: PLC0415 - only the ingress listens.

        return TcpSource((place["host"], place["port"]), config.decoder, log, context)


class TcpSinkKind(SinkKind):
    """Sinks that connect to an address and send it the outputs."""

    config_class = TCPSinkConfig

    def mistakes(self, config: TCPSinkConfig) -> Iterator[str]:
        """Check the address, the name and the encoder."""
        yield from address_mistakes(config, "sink")
        yield from sink_name_mistakes(config.name)
        yield from encoder_mistakes(config.encoder)

    def shown(self, config: TCPSinkConfig) -> tuple[str, ...]:
        """Return the address and the encoder."""
        return shown_address("TCP", config), f"encoded by {bare_label(config.encoder)}"

    def preflight(self, pipeline: str, config: TCPSinkConfig) -> None:
        """Refuse an address that no receiver can have."""
        check_receiver(pipeline, config)

    def connection(self, config: TCPSinkConfig, context: SinkContext) -> SinkConnection:
        """Return a sink that sends the bytes of blocks, or, for effectively once, frames that the receiver confirms."""
        from wallaroo.connectors.tcp.confirmed_sink import ConfirmedTcpSink  # noqa: PLC0415 - only the driver sends.
        from wallaroo.connectors.tcp.sink import TcpSink  # noqa: PLC0415

        host, port = config.address
        if context.effectively_once:
            return ConfirmedTcpSink(host, port, context)
        return TcpSink(host, port, context.stopping, context.notice)


KINDS = [TcpSourceKind(), TcpSinkKind()]
