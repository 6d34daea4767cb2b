"""The kinds of Kafka sources and sinks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wallaroo.addresses import unknown_host
from wallaroo.connectors.base import ReplayableKind, SinkKind
from wallaroo.connectors.config_checks import (
    encoder_mistakes,
    message_decoder_mistakes,
    sink_name_mistakes,
    source_name_mistakes,
)
from wallaroo.connectors.kafka.config import KafkaSinkConfig, KafkaSourceConfig
from wallaroo.connectors.kafka.config_checks import (
    common_mistakes,
    group_mistakes,
    produce_mistakes,
    sharing_mistake,
    start_mistakes,
)
from wallaroo.connectors.kafka.settings import client_settings, servers
from wallaroo.errors import AddressError, ApplicationError
from wallaroo.introspection import bare_label

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from wallaroo.connectors.base import (
        Intake,
        IntakeContext,
        SinkConnection,
        SinkContext,
        SourceRanges,
        SourceReader,
    )


class KafkaSourceKind(ReplayableKind):
    """Sources that read a topic; the messages stay in Kafka."""

    name = "kafka"
    config_class = KafkaSourceConfig
    nature = "reads a topic of Kafka"
    has_lanes = True

    def mistakes(self, config: KafkaSourceConfig) -> Iterator[str]:
        """Check the topic, the brokers, the settings, the name, where to start, the group, and the decoder."""
        yield from common_mistakes(config, "source")
        yield from source_name_mistakes(config.name)
        yield from start_mistakes(config.start)
        yield from group_mistakes(config.group)
        yield from message_decoder_mistakes(config.decoder)

    def shown(self, config: KafkaSourceConfig) -> tuple[str, ...]:
        """Return the topic, where it is, and the decoder."""
        return *_shown_topic(config), f"decoded by {bare_label(config.decoder)}"

    def preflight(self, pipeline: str, config: KafkaSourceConfig) -> None:
        """Refuse brokers that cannot exist, and settings that the client does not know."""
        _check_hosts(f"Pipeline {pipeline!r} cannot read the topic {config.topic!r}", config)
        _check_settings(pipeline, config, is_sink=False)

    def place(self, config: KafkaSourceConfig) -> dict[str, Any]:
        """Return the topic and the brokers."""
        return {"topic": config.topic, "brokers": [[host, str(port)] for host, port in config.brokers]}

    def intake(
        self, config: KafkaSourceConfig, place: Mapping[str, Any], ranges: SourceRanges, context: IntakeContext
    ) -> Intake:
        """Return the intake that looks for new offsets."""
        from wallaroo.connectors.kafka.source import KafkaIntake  # noqa: PLC0415 - only the ingress looks.

        intake: Intake = KafkaIntake(config, place, ranges, context)
        return intake

    def reader(self, config: KafkaSourceConfig, place: Mapping[str, Any], log: SourceReader) -> SourceReader:  # noqa: ARG002 - there is no log.
        """Return the reader of the topic."""
        from wallaroo.connectors.kafka.offset_range_reader import KafkaReader  # noqa: PLC0415 - only workers read.

        reader: SourceReader = KafkaReader(config, place)
        return reader


class KafkaSinkKind(SinkKind):
    """Sinks that write to a topic."""

    config_class = KafkaSinkConfig

    def mistakes(self, config: KafkaSinkConfig) -> Iterator[str]:
        """Check the topic, the brokers, the settings, the name, the limits, and the encoder."""
        yield from common_mistakes(config, "sink")
        yield from sink_name_mistakes(config.name)
        yield from produce_mistakes(config)
        yield from encoder_mistakes(config.encoder)

    def conflict(self, config: KafkaSinkConfig, other: KafkaSinkConfig) -> str | None:
        """Refuse sinks of one topic that differ in how it is written: they share a connection and its transactions."""
        return None if any(self.mistakes(config)) or any(self.mistakes(other)) else sharing_mistake(config, other)

    def shown(self, config: KafkaSinkConfig) -> tuple[str, ...]:
        """Return the topic, where it is, and the encoder."""
        return *_shown_topic(config), f"encoded by {bare_label(config.encoder)}"

    def preflight(self, pipeline: str, config: KafkaSinkConfig) -> None:
        """Refuse brokers that cannot exist, and settings that the client does not know."""
        _check_hosts(f"Pipeline {pipeline!r} cannot write to the topic {config.topic!r}", config)
        _check_settings(pipeline, config, is_sink=True)

    def packer(self, config: KafkaSinkConfig) -> Callable[[Any], bytes]:
        """Return what packs values, keys and partitions."""
        from wallaroo.connectors.kafka.producer_records import packer  # noqa: PLC0415 - only for a run.

        pack: Callable[[Any], bytes] = packer(config.max_message_size)
        return pack

    def unpacked(self, message: bytes) -> bytes:
        """Return the value, which also has the key and the partition."""
        from wallaroo.connectors.kafka.producer_records import EncodedOutput, unpack  # noqa: PLC0415 - only for tests.

        output: bytes = EncodedOutput.of(unpack(message))
        return output

    def connection(self, config: KafkaSinkConfig, context: SinkContext) -> SinkConnection:
        """Return a sink that writes to the topic."""
        from wallaroo.connectors.kafka.sink import KafkaSink  # noqa: PLC0415 - only the driver writes.

        sink: SinkConnection = KafkaSink(
            config.topic,
            client_settings(config, config.brokers),
            context,
            exactly_once=config.exactly_once,
            max_produce_buffer_ms=config.max_produce_buffer_ms,
            max_message_size=config.max_message_size,
        )
        return sink


KINDS = [KafkaSourceKind(), KafkaSinkKind()]


def _shown_topic(config: KafkaSourceConfig | KafkaSinkConfig) -> tuple[str, str]:
    more = f" and {len(config.brokers) - 1} more" if len(config.brokers) > 1 else ""
    return f"Kafka topic {config.topic}", f"at {servers(config.brokers[:1])}{more}"


def _check_hosts(problem: str, config: KafkaSourceConfig | KafkaSinkConfig) -> None:
    """Refuse brokers of which none has a known name: one of them is enough to find the others."""
    reasons = {host: unknown_host(host) for host, _ in config.brokers}
    if all(reason is not None for reason in reasons.values()):
        shown = ", ".join(f"{host!r} ({reason})" for host, reason in reasons.items())
        names = f"the name {shown} is" if len(reasons) == 1 else f"the names {shown} are"
        raise AddressError(f"{problem}: {names} not known. Give a name or an address of a broker.")


def _check_settings(pipeline: str, config: KafkaSourceConfig | KafkaSinkConfig, *, is_sink: bool) -> None:
    """Have the client check its settings; it does not connect for that."""
    role = "sink" if is_sink else "source"
    try:
        from confluent_kafka import Consumer, KafkaException, Producer  # noqa: PLC0415 - only needed for a run.
    except ImportError as error:
        raise ApplicationError(
            f"Pipeline {pipeline!r} has a Kafka {role}, and the package confluent-kafka is not installed in this "
            f"Python, or cannot be used ({error}). Run: pip install --force-reinstall wallaroo-spark"
        ) from error
    settings = {**client_settings(config, config.brokers), "log_level": 0}
    try:
        if is_sink:
            Producer(settings)
        else:
            Consumer({**settings, "group.id": "wallaroo"}).close()
    except (KafkaException, TypeError, ValueError) as error:
        reason = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        raise ApplicationError(
            f"Pipeline {pipeline!r}: Kafka's client refuses config of the {role}: {reason}."
        ) from error
