"""The kinds of sources and sinks whose other half is a script."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from wallaroo.connectors.address_config import address_mistakes, check_receiver, shown_address
from wallaroo.connectors.base import LoggedKind, SinkKind
from wallaroo.connectors.config_checks import encoder_mistakes, message_decoder_mistakes, sink_name_mistakes
from wallaroo.connectors.extension.config import SinkExtensionConfig, SourceExtensionConfig
from wallaroo.interfaces import takes_message
from wallaroo.introspection import bare_label, call_text, label

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wallaroo.connectors.base import Intake, IntakeContext, SinkConnection, SinkContext, SourceLog, SourceReader


class SourceExtensionKind(LoggedKind):
    """Sources that listen for scripts, which send their messages in frames and are told what is durable."""

    name = "extension"
    config_class = SourceExtensionConfig
    nature = "takes messages from scripts"
    remembers_senders = True

    def mistakes(self, config: SourceExtensionConfig) -> Iterator[str]:
        """Check the address and the decoder."""
        yield from address_mistakes(config, "source")
        yield from _decoder_mistakes(config.decoder)

    def shown(self, config: SourceExtensionConfig) -> tuple[str, ...]:
        """Return the address and the decoder."""
        return shown_address("extension", config), f"decoded by {bare_label(config.decoder)}"

    def listens_on(self, config: SourceExtensionConfig) -> tuple[str, int] | None:
        """Return the address."""
        return None if any(address_mistakes(config, "source")) else config.address

    def place(self, config: SourceExtensionConfig) -> dict[str, Any]:
        """Return the address."""
        host, port = config.address
        return {"host": host, "port": port}

    def intake(
        self,
        config: SourceExtensionConfig,  # noqa: ARG002 - scripts have their own framing.
        place: Mapping[str, Any],
        log: SourceLog,
        context: IntakeContext,
    ) -> Intake:
        """Return the intake that listens."""
        from wallaroo.connectors.extension.source import ExtensionIntake  # noqa: PLC0415 - only the ingress listens.

        return ExtensionIntake((place["host"], place["port"]), log, context)

    def reader(self, config: SourceExtensionConfig, place: Mapping[str, Any], log: SourceReader) -> SourceReader:  # noqa: ARG002
        """Return a reader of the log that leaves out what is noted there beside the messages."""
        from wallaroo.connectors.extension.logged_frames import FrameReader  # noqa: PLC0415 - only workers read.

        return FrameReader(log)


class SinkExtensionKind(SinkKind):
    """Sinks that connect to a script, which confirms what it has processed."""

    config_class = SinkExtensionConfig

    def mistakes(self, config: SinkExtensionConfig) -> Iterator[str]:
        """Check the address, the name and the encoder."""
        yield from address_mistakes(config, "sink")
        yield from sink_name_mistakes(config.name)
        yield from encoder_mistakes(config.encoder)

    def shown(self, config: SinkExtensionConfig) -> tuple[str, ...]:
        """Return the address and the encoder."""
        return shown_address("extension", config), f"encoded by {bare_label(config.encoder)}"

    def preflight(self, pipeline: str, config: SinkExtensionConfig) -> None:
        """Refuse an address that no script can listen on."""
        check_receiver(pipeline, config)

    def connection(self, config: SinkExtensionConfig, context: SinkContext) -> SinkConnection:
        """Return a sink that sends blocks to the script."""
        from wallaroo.connectors.extension.sink import ExtensionSink  # noqa: PLC0415 - only the driver sends.

        return ExtensionSink(*config.address, context)


KINDS = [SourceExtensionKind(), SinkExtensionKind()]


def _decoder_mistakes(decoder: Any) -> Iterator[str]:
    """Check a decoder for messages that have no framing of the user's, and nothing else that comes with them."""
    if inspect.isroutine(decoder):
        above = "@wallaroo.experimental.streaming_message_decoder"
        yield f"the decoder is the plain function {label(decoder)}: write {above} above it"
    elif not inspect.isclass(decoder) and takes_message(decoder):
        yield (
            f"the decoder {label(decoder)} takes a second argument, which only Kafka sources have: leave it out, as in "
            f"decode(message); it is written as {call_text(decoder.decode, 'decode')}"
        )
    else:
        yield from message_decoder_mistakes(decoder)
