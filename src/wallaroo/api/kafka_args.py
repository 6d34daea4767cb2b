"""Kafka's options on the command line that `application_setup` is given, and configs that take them from there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wallaroo.addresses import not_an_address, port_number, split_address
from wallaroo.api.tcp_args import known_options
from wallaroo.connectors.kafka.config import (
    LOG_LEVELS,
    MAX_MESSAGE_SIZE,
    MAX_PRODUCE_BUFFER_MS,
    KafkaSinkConfig,
    KafkaSourceConfig,
    Start,
)
from wallaroo.errors import WallarooParameterError
from wallaroo.introspection import a_kind_of
from wallaroo.setup_arguments import MissingOptionError, current_arguments, is_in_setup

if TYPE_CHECKING:
    from wallaroo.interfaces import KafkaDecoder, KafkaEncoder

_SOURCE, _SINK = "kafka_source", "kafka_sink"
_DEFAULT_PORT = 9092
_SAMPLES = {"topic": "words", "brokers": f"127.0.0.1:{_DEFAULT_PORT}"}


def kafka_parse_source_options(args: Sequence[str]) -> tuple[Any, ...]:
    """Return the options of a Kafka source from the command line; all other arguments are ignored.

    They are `--kafka_source_topic`, `--kafka_source_brokers`, which is a list of `host:port` with commas between them
    (the port is 9092 if it is left out), and `--kafka_source_log_level`: Fine, Info, Warn (the default) or Error. With
    `--kafka_source_name` there is a name in front, as in the last releases of the original.

    Args:
        args: The command line, as `application_setup` gets it.

    Returns:
        `(topic, brokers, log_level)`, or `(name, topic, brokers, log_level)` if a name is given. With a decoder behind
        them, both are the arguments of `KafkaSourceConfig`.

    Raises:
        WallarooParameterError: The topic or the brokers are missing, or an option has a value that cannot be used.

    >>> kafka_parse_source_options(["--kafka_source_topic", "words", "--kafka_source_brokers", "kafka1:9092,kafka2"])
    ('words', [('kafka1', '9092'), ('kafka2', '9092')], 'Warn')
    """
    options = _Options(args, _SOURCE)
    return *options.name(), *options.topic()


def kafka_parse_sink_options(args: Sequence[str]) -> tuple[Any, ...]:
    """Return the options of a Kafka sink from the command line; all other arguments are ignored.

    They are `--kafka_sink_topic`, `--kafka_sink_brokers` and `--kafka_sink_log_level`, as for sources,
    `--kafka_sink_max_produce_buffer_ms` (0 if it is left out) and `--kafka_sink_max_message_size` (100000). With
    `--kafka_sink_name` there is a name in front.

    Args:
        args: The command line, as `application_setup` gets it.

    Returns:
        `(topic, brokers, log_level, max_produce_buffer_ms, max_message_size)`, or the same behind a name if one is
        given. With an encoder behind them, both are the arguments of `KafkaSinkConfig`.

    Raises:
        WallarooParameterError: The topic or the brokers are missing, or an option has a value that cannot be used.

    >>> kafka_parse_sink_options(["--kafka_sink_topic", "counts", "--kafka_sink_brokers", "127.0.0.1:9092"])
    ('counts', [('127.0.0.1', '9092')], 'Warn', 0, 100000)
    """
    options = _Options(args, _SINK)
    return *options.name(), *options.topic(), *options.limits()


class CustomKafkaSourceCLIParser(KafkaSourceConfig):
    """A Kafka source with the options that `kafka_parse_source_options` finds in `args`.

    Args:
        args: The command line, as `application_setup` gets it.
        decoder: As for `KafkaSourceConfig`.
        start: As for `KafkaSourceConfig`.
        group: As for `KafkaSourceConfig`.
        config: As for `KafkaSourceConfig`.

    >>> import wallaroo
    >>> args = ["--kafka_source_topic", "words", "--kafka_source_brokers", "127.0.0.1:9092"]
    >>> CustomKafkaSourceCLIParser(args, wallaroo.decoder(bytes.decode)).brokers
    [('127.0.0.1', '9092')]
    """

    def __init__(
        self,
        args: Sequence[str],
        decoder: KafkaDecoder,
        *,
        start: Start = "earliest",
        group: str | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        topic, brokers, log_level = (options := _Options(args, _SOURCE)).topic()
        name = next(iter(options.name()), None)
        super().__init__(topic, brokers, log_level, decoder, start=start, group=group, config=config, name=name)


class CustomKafkaSinkCLIParser(KafkaSinkConfig):
    """A Kafka sink with the options that `kafka_parse_sink_options` finds in `args`.

    Args:
        args: The command line, as `application_setup` gets it.
        encoder: As for `KafkaSinkConfig`.
        exactly_once: As for `KafkaSinkConfig`.
        config: As for `KafkaSinkConfig`.

    >>> import wallaroo
    >>> args = ["--kafka_sink_topic", "counts", "--kafka_sink_brokers", "127.0.0.1:9092"]
    >>> CustomKafkaSinkCLIParser(args, wallaroo.encoder(str), exactly_once=False).topic
    'counts'
    """

    def __init__(
        self,
        args: Sequence[str],
        encoder: KafkaEncoder,
        *,
        exactly_once: bool = True,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        topic, brokers, log_level = (options := _Options(args, _SINK)).topic()
        name = next(iter(options.name()), None)
        super().__init__(
            *(topic, brokers, log_level, *options.limits(), encoder),
            exactly_once=exactly_once,
            config=config,
            name=name,
        )


class DefaultKafkaSourceCLIParser(KafkaSourceConfig):
    """A Kafka source with the options that `application_setup` has been given, which need not be passed on.

    The name is the beginning of their names, so that several sources have options of their own: a source with the name
    `feed` takes `--feed_topic`, `--feed_brokers` and `--feed_log_level`. Called with a command line, it returns a
    source with the options there.

    Args:
        decoder: As for `KafkaSourceConfig`.
        name: The beginning of the names of the options, without `--`.
        start: As for `KafkaSourceConfig`.
        group: As for `KafkaSourceConfig`.
        config: As for `KafkaSourceConfig`.

    >>> import wallaroo
    >>> feed = DefaultKafkaSourceCLIParser(wallaroo.decoder(bytes.decode), name="feed")
    >>> feed(["--feed_topic", "words", "--feed_brokers", "127.0.0.1:9092"]).topic
    'words'
    """

    def __init__(
        self,
        decoder: KafkaDecoder,
        name: str = _SOURCE,
        *,
        start: Start = "earliest",
        group: str | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        topic, brokers, log_level = _found(name) or ("", [], "Warn")
        super().__init__(topic, brokers, log_level, decoder, start=start, group=group, config=config, name=name)

    def __call__(self, args: Sequence[str]) -> KafkaSourceConfig:
        """Return the source with the options of another command line.

        Args:
            args: The command line.

        Returns:
            The source.
        """
        topic, brokers, log_level = _Options(args, self.name or _SOURCE).topic()
        return KafkaSourceConfig(
            *(topic, brokers, log_level, self.decoder),
            start=self.start,
            group=self.group,
            config=self.config,
            name=self.name,
        )


class DefaultKafkaSinkCLIParser(KafkaSinkConfig):
    """A Kafka sink with the options that `application_setup` has been given, which need not be passed on.

    The name is the beginning of their names, so that several sinks have options of their own: a sink with the name
    `alerts` takes `--alerts_topic`, `--alerts_brokers`, `--alerts_log_level`, `--alerts_max_produce_buffer_ms` and
    `--alerts_max_message_size`. Called with a command line, it returns a sink with the options there.

    Args:
        encoder: As for `KafkaSinkConfig`.
        name: The beginning of the names of the options, without `--`; also the name of the sink.
        exactly_once: As for `KafkaSinkConfig`.
        config: As for `KafkaSinkConfig`.

    >>> import wallaroo
    >>> alerts = DefaultKafkaSinkCLIParser(wallaroo.encoder(str), name="alerts")
    >>> alerts(["--alerts_topic", "counts", "--alerts_brokers", "127.0.0.1:9092"]).topic
    'counts'
    """

    def __init__(
        self,
        encoder: KafkaEncoder,
        name: str = _SINK,
        *,
        exactly_once: bool = True,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        topic, brokers, log_level = _found(name) or ("", [], "Warn")
        limits = _Options(current_arguments(), name).limits() if topic else (MAX_PRODUCE_BUFFER_MS, MAX_MESSAGE_SIZE)
        super().__init__(
            *(topic, brokers, log_level, *limits, encoder), exactly_once=exactly_once, config=config, name=name
        )

    def __call__(self, args: Sequence[str]) -> KafkaSinkConfig:
        """Return the sink with the options of another command line.

        Args:
            args: The command line.

        Returns:
            The sink.
        """
        options = _Options(args, self.name or _SINK)
        topic, brokers, log_level = options.topic()
        return KafkaSinkConfig(
            *(topic, brokers, log_level, *options.limits(), self.encoder),
            exactly_once=self.exactly_once,
            config=self.config,
            name=self.name,
        )


def _found(prefix: str) -> tuple[str, list[tuple[str, str]], str] | None:
    """Return the options of the running `application_setup`; None if none is running and they are missing."""
    try:
        return _Options(current_arguments(), prefix).topic()
    except WallarooParameterError:
        if is_in_setup():
            raise
        return None


class _Options:
    """The options whose names begin with a prefix."""

    def __init__(self, args: Sequence[str], prefix: str) -> None:
        if not isinstance(prefix, str) or not prefix:
            raise WallarooParameterError(
                f"the name must be a string, the beginning of the names of options; got {a_kind_of(prefix)}."
            )
        self._prefix = prefix
        self._given = known_options(
            args,
            *(f"--{prefix}_{each}" for each in ("name", "topic", "brokers", "log_level")),
            *(f"--{prefix}_{each}" for each in ("max_produce_buffer_ms", "max_message_size")),
        )

    def name(self) -> tuple[str, ...]:
        """Return the name, if there is one."""
        found = self._value("name")
        return () if found is None else (found,)

    def topic(self) -> tuple[str, list[tuple[str, str]], str]:
        """Return the topic, the brokers and the log level."""
        topic = self._needed("topic")
        brokers = [self._broker(each.strip()) for each in self._needed("brokers").split(",")]
        log_level = self._value("log_level") or "Warn"
        if log_level not in LOG_LEVELS:
            raise WallarooParameterError(
                f"{self._option('log_level')} must be one of {', '.join(LOG_LEVELS)}; got {log_level!r}."
            )
        return topic, brokers, log_level

    def limits(self) -> tuple[int, int]:
        """Return `max_produce_buffer_ms` and `max_message_size`."""
        return (
            self._number("max_produce_buffer_ms", MAX_PRODUCE_BUFFER_MS),
            self._number("max_message_size", MAX_MESSAGE_SIZE),
        )

    def _option(self, what: str) -> str:
        return f"--{self._prefix}_{what}"

    def _value(self, what: str) -> str | None:
        return self._given.get(self._option(what))

    def _needed(self, what: str) -> str:
        if not (found := self._value(what)):
            raise MissingOptionError(self._option(what), _SAMPLES[what])
        return found

    def _number(self, what: str, default: int) -> int:
        found = self._value(what)
        try:
            return default if found is None else int(found)
        except ValueError as error:
            raise WallarooParameterError(f"{self._option(what)} must be a whole number; got {found!r}.") from error

    def _broker(self, broker: str) -> tuple[str, str]:
        option = self._option("brokers")
        try:
            host, port = split_address(broker, _DEFAULT_PORT)
            if port_number(port) == 0:
                raise not_an_address(broker, "the port of a broker cannot be 0; give the one that it listens on")
        except WallarooParameterError as error:
            raise WallarooParameterError(
                f"{option}: {error}; for example {option} 127.0.0.1:9092,127.0.0.1:9093."
            ) from error
        return host, port
