"""The settings of librdkafka: those that follow from a config, and those that users must leave to us."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wallaroo.connectors.kafka.config import KafkaSinkConfig, KafkaSourceConfig

_SYSLOG = {"Fine": 7, "Info": 6, "Warn": 4, "Error": 3}

CALLABLE = frozenset({"oauth_cb"})
"""Settings of the Python client that are functions of the user's."""

_INSTEAD = {
    "bootstrap.servers": "name the brokers in `brokers`",
    "metadata.broker.list": "name the brokers in `brokers`",
    "log_level": 'write log_level="Info"',
}
_INSTEAD_IN_SOURCE = {
    **_INSTEAD,
    "group.id": 'write group="..."',
    "auto.offset.reset": 'write start="earliest" or start="latest"',
}
_INSTEAD_IN_SINK = {
    **_INSTEAD,
    "linger.ms": "write max_produce_buffer_ms=...",
    "queue.buffering.max.ms": "write max_produce_buffer_ms=...",
    "message.max.bytes": "write max_message_size=...",
    "enable.idempotence": "outputs are written without repeats in any case, and with exactly_once also after a crash",
    "transactional.id": "exactly_once=True uses transactions, with an id that belongs to the application's state",
}
_POSITIONS = "the positions are kept with the application's state, and the group only shows them"
_ALWAYS_IN_SOURCE = {
    "enable.auto.commit": _POSITIONS,
    "auto.commit.enable": _POSITIONS,
    "auto.commit.interval.ms": _POSITIONS,
    "enable.auto.offset.store": _POSITIONS,
    "group.instance.id": _POSITIONS,
    "group.protocol": _POSITIONS,
    "isolation.level": "only committed messages are read",
    "enable.partition.eof": "the end of a partition is looked for in any case",
    "on_commit": _POSITIONS,
}
_NOTHING_LOST = "an output is sent until the brokers have it"
_ALWAYS_IN_SINK = {
    "acks": _NOTHING_LOST,
    "request.required.acks": _NOTHING_LOST,
    "retries": _NOTHING_LOST,
    "message.send.max.retries": _NOTHING_LOST,
    "delivery.timeout.ms": _NOTHING_LOST,
    "message.timeout.ms": _NOTHING_LOST,
    "enable.gapless.guarantee": _NOTHING_LOST,
    "delivery.report.only.error": _NOTHING_LOST,
    "max.in.flight.requests.per.connection": "it decides on the order of the outputs",
    "max.in.flight": "it decides on the order of the outputs",
}
_CALLBACKS = frozenset({"error_cb", "stats_cb", "throttle_cb", "log_cb", "logger", "on_delivery", "dr_cb"})


def why_refused(name: str, *, is_sink: bool) -> str | None:
    """Return why users must not set this, or what to write instead; None if they may.

    >>> why_refused("group.id", is_sink=False), why_refused("sasl.mechanism", is_sink=False)
    ('write group="..."', None)
    """
    if name in _CALLBACKS:
        return "what the client reports goes to the application's log"
    instead, always = (_INSTEAD_IN_SINK, _ALWAYS_IN_SINK) if is_sink else (_INSTEAD_IN_SOURCE, _ALWAYS_IN_SOURCE)
    return instead.get(name) or always.get(name)


def servers(brokers: Iterable[Iterable[Any]]) -> str:
    """Return brokers as librdkafka has them.

    >>> servers([("kafka1", "9092"), ("::1", 9093)])
    'kafka1:9092,[::1]:9093'
    """
    return ",".join(f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}" for host, port in brokers)


def client_settings(config: KafkaSourceConfig | KafkaSinkConfig, brokers: Iterable[Iterable[Any]]) -> dict[str, Any]:
    """Return the settings that all clients of a config have; `brokers` may be those of another process.

    >>> from wallaroo.connectors.kafka.config import KafkaSinkConfig
    >>> sink = KafkaSinkConfig("t", [("kafka1", "9092")], encoder=None, config={"security.protocol": "SSL"})
    >>> client_settings(sink, sink.brokers)
    {'client.id': 'wallaroo', 'security.protocol': 'SSL', 'bootstrap.servers': 'kafka1:9092', 'log_level': 4}
    """
    return {
        "client.id": "wallaroo",
        **config.config,
        "bootstrap.servers": servers(brokers),
        "log_level": _SYSLOG[config.log_level],
    }
