"""The kinds of TCP sources and sinks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wallaroo.connectors.address_config import address_mistakes, check_receiver, shown_address
from wallaroo.connectors.base import LoggedKind, SinkKind
from wallaroo.connectors.config_checks import (
    decoder_mistakes,
    encoder_mistakes,
    sink_name_mistakes,
    source_name_mistakes,
)
from wallaroo.connectors.tcp.config import TCPSinkConfig, TCPSourceConfig
from wallaroo.introspection import a_kind_of, bare_label

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wallaroo.connectors.base import Intake, IntakeContext, SinkConnection, SinkContext, SourceLog

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
