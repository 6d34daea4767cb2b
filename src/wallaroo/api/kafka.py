"""Kafka's names. Kafka itself comes in a later release; programs that use it are told so plainly."""

from __future__ import annotations

from typing import Any, NoReturn

from wallaroo.errors import WallarooParameterError


class KafkaSourceConfig:
    """`KafkaSourceConfig(topic, brokers, log_level, decoder)`: not in this release.

    >>> KafkaSourceConfig("text", [("127.0.0.1", "9092")], "Warn", None)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    wallaroo.errors.WallarooParameterError: KafkaSourceConfig: Kafka comes in a later release. Until ...
    """

    def __init__(self, *_arguments: Any, **_options: Any) -> None:
        _refuse("KafkaSourceConfig", _INSTEAD_OF_SOURCE)


class KafkaSinkConfig:
    """A Kafka sink: not in this release.

    Its arguments will be `topic, brokers, log_level, max_produce_buffer_ms, max_message_size, encoder`.

    >>> KafkaSinkConfig("counts", [("127.0.0.1", "9092")], "Warn", 0, 100000, None)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    wallaroo.errors.WallarooParameterError: KafkaSinkConfig: Kafka comes in a later release. Until ...
    """

    def __init__(self, *_arguments: Any, **_options: Any) -> None:
        _refuse("KafkaSinkConfig", _INSTEAD_OF_SINK)


class DefaultKafkaSourceCLIParser:
    """`DefaultKafkaSourceCLIParser(decoder, name="kafka_source")`: not in this release.

    >>> DefaultKafkaSourceCLIParser(None)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    wallaroo.errors.WallarooParameterError: DefaultKafkaSourceCLIParser: Kafka comes in a later release. Until ...
    """

    def __init__(self, *_arguments: Any, **_options: Any) -> None:
        _refuse("DefaultKafkaSourceCLIParser", _INSTEAD_OF_SOURCE)


class DefaultKafkaSinkCLIParser:
    """`DefaultKafkaSinkCLIParser(encoder, name="kafka_sink")`: not in this release.

    >>> DefaultKafkaSinkCLIParser(None)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    wallaroo.errors.WallarooParameterError: DefaultKafkaSinkCLIParser: Kafka comes in a later release. Until ...
    """

    def __init__(self, *_arguments: Any, **_options: Any) -> None:
        _refuse("DefaultKafkaSinkCLIParser", _INSTEAD_OF_SINK)


class CustomKafkaSourceCLIParser:
    """`CustomKafkaSourceCLIParser(args, decoder)`: not in this release.

    >>> CustomKafkaSourceCLIParser([], None)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    wallaroo.errors.WallarooParameterError: CustomKafkaSourceCLIParser: Kafka comes in a later release. Until ...
    """

    def __init__(self, *_arguments: Any, **_options: Any) -> None:
        _refuse("CustomKafkaSourceCLIParser", _INSTEAD_OF_SOURCE)


class CustomKafkaSinkCLIParser:
    """`CustomKafkaSinkCLIParser(args, encoder)`: not in this release.

    >>> CustomKafkaSinkCLIParser([], None)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    wallaroo.errors.WallarooParameterError: CustomKafkaSinkCLIParser: Kafka comes in a later release. Until ...
    """

    def __init__(self, *_arguments: Any, **_options: Any) -> None:
        _refuse("CustomKafkaSinkCLIParser", _INSTEAD_OF_SINK)


def kafka_parse_source_options(*_arguments: Any, **_options: Any) -> NoReturn:
    """`kafka_parse_source_options(args)`: not in this release.

    >>> kafka_parse_source_options(["--kafka_source_topic", "text"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    wallaroo.errors.WallarooParameterError: kafka_parse_source_options: Kafka comes in a later ...
    """
    _refuse("kafka_parse_source_options", _INSTEAD_OF_SOURCE)


def kafka_parse_sink_options(*_arguments: Any, **_options: Any) -> NoReturn:
    """`kafka_parse_sink_options(args)`: not in this release.

    >>> kafka_parse_sink_options(["--kafka_sink_topic", "counts"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    wallaroo.errors.WallarooParameterError: kafka_parse_sink_options: Kafka comes in a later ...
    """
    _refuse("kafka_parse_sink_options", _INSTEAD_OF_SINK)


_INSTEAD_OF_SOURCE = (
    "wallaroo.TCPSourceConfig(host, port, decoder), with the address from "
    "wallaroo.tcp_parse_input_addrs(args), and send the topic's messages to it over TCP"
)
_INSTEAD_OF_SINK = (
    "wallaroo.TCPSinkConfig(host, port, encoder), with the address from "
    "wallaroo.tcp_parse_output_addrs(args), and put what arrives there into the topic"
)


def _refuse(name: str, instead: str) -> NoReturn:
    raise WallarooParameterError(f"{name}: Kafka comes in a later release. Until then use {instead}.")
