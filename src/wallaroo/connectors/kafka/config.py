"""Topics of Kafka that messages come from, and outputs go to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, overload

from wallaroo.errors import WallarooParameterError
from wallaroo.introspection import label

if TYPE_CHECKING:
    from wallaroo.interfaces import KafkaDecoder, KafkaEncoder

Brokers = Sequence[tuple[str, str | int]]
"""The hosts and ports of some brokers of a cluster; the others are found through them."""
Start = Literal["earliest", "latest"] | datetime

LOG_LEVELS = ("Fine", "Info", "Warn", "Error")
EARLIEST, LATEST = "earliest", "latest"
MAX_PRODUCE_BUFFER_MS = 0
MAX_MESSAGE_SIZE = 100_000


class KafkaSourceConfig:
    """A source that reads a topic of Kafka, each partition in its order.

    It is written `KafkaSourceConfig(topic, brokers, log_level, decoder)`, or with a name in front, as
    `kafka_parse_source_options` returns it if there is a name. The arguments are kept as they are given; building the
    application reports what is wrong with them. The positions are part of the application's state.

    Args:
        name: The name of the source; that of its pipeline is what counts.
        topic: The topic. Partitions that are added to it are found while the application runs.
        brokers: A list of pairs of a host and a port; some brokers of the cluster are enough.
        log_level: How much Kafka's client writes to the log: Fine, Info, Warn or Error.
        decoder: What decodes the value of a message: made with `@wallaroo.decoder`, or an object with `decode`. Headers
            and lines mean nothing here. If `decode` has a second parameter, it is given a `wallaroo.KafkaMessage`.
        start: Where to start if the application has no state yet: "earliest", "latest", or a datetime with a time zone,
            for the first messages from then on.
        group: The consumer group whose offsets are kept up to date, for tools that show the lag; nothing is read from
            it. By default it is named after the pipeline.
        config: Further settings for Kafka's client, librdkafka, such as those for TLS and SASL.

    >>> import wallaroo
    >>> @wallaroo.decoder
    ... def decode(bs, message):
    ...     return message.key, bs.decode()
    >>> brokers = [("kafka1", "9092"), ("kafka2", "9092")]
    >>> config = KafkaSourceConfig("words", brokers, "Warn", decode, start="latest")
    >>> config
    KafkaSourceConfig(topic='words', brokers=[('kafka1', '9092'), ('kafka2', '9092')], decoder=<@wallaroo.decoder 'decode'>)
    >>> config.decoder.decode(b"hello", wallaroo.KafkaMessage(key=b"k"))
    (b'k', 'hello')
    """  # noqa: E501 - the example shows a line as it is printed.

    @overload
    def __init__(
        self,
        topic: str,
        brokers: Brokers,
        log_level: str,
        decoder: KafkaDecoder,
        *,
        start: Start = "earliest",
        group: str | None = None,
        config: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        name: str,
        topic: str,
        brokers: Brokers,
        log_level: str,
        decoder: KafkaDecoder,
        /,
        *,
        start: Start = "earliest",
        group: str | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        topic: str,
        brokers: Brokers,
        *,
        decoder: KafkaDecoder,
        log_level: str = "Warn",
        start: Start = "earliest",
        group: str | None = None,
        config: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> None: ...
    def __init__(self, *arguments: Any, **named: Any) -> None:
        given = _SOURCE.bind("KafkaSourceConfig", arguments, named)
        self.topic: str = given["topic"]
        self.brokers: Brokers = given["brokers"]
        self.log_level: str = given.get("log_level", "Warn")
        self.decoder: KafkaDecoder = given["decoder"]
        self.start: Start = given.get("start", "earliest")
        self.group: str | None = given.get("group")
        self.config: Mapping[str, Any] = _own_copy(given.get("config"))
        self.name: str | None = given.get("name")

    def __repr__(self) -> str:
        return f"KafkaSourceConfig({_shown_topic(self)}, decoder={self.decoder!r})"


class KafkaSinkConfig:
    """A sink that writes the outputs to a topic of Kafka.

    It is written `KafkaSinkConfig(topic, brokers, log_level, max_produce_buffer_ms, max_message_size, encoder)`, or
    with a name in front, as `kafka_parse_sink_options` returns it if there is a name; by keyword, all but the topic,
    the brokers and the encoder can be left out. The arguments are kept as they are given; building the application
    reports what is wrong with them.

    Args:
        name: The name of the sink, by which `to_sinks(..., choose=function)` picks it; no other sink of the pipeline
            may have it.
        topic: The topic.
        brokers: A list of pairs of a host and a port; some brokers of the cluster are enough.
        log_level: How much Kafka's client writes to the log: Fine, Info, Warn or Error.
        max_produce_buffer_ms: How long the client waits for further messages before it sends a batch.
        max_message_size: The largest message in bytes; a larger one is an error of its encoder.
        encoder: What turns an output into a value, bytes or text, or into a tuple `(value, key)`, or
            `(value, key, partition)`. Keys are bytes, text or None. Messages of one key go to one partition, unless the
            encoder names another.
        exactly_once: Write in transactions, so that those who read committed messages only have every output once, also
            after a crash. False saves the time that a transaction takes; then outputs may be repeated after a crash.
        config: Further settings for Kafka's client, librdkafka, such as those for TLS and SASL.

    >>> import wallaroo
    >>> @wallaroo.encoder
    ... def encode(word_and_count):
    ...     word, count = word_and_count
    ...     return str(count), word
    >>> config = KafkaSinkConfig("counts", [("127.0.0.1", 9092)], "Warn", 0, 100000, encode)
    >>> config
    KafkaSinkConfig(topic='counts', brokers=[('127.0.0.1', 9092)], encoder=<@wallaroo.encoder 'encode'>)
    >>> config.max_message_size, config.exactly_once, config.encoder.encode(("why", 2))
    (100000, True, ('2', 'why'))
    """

    @overload
    def __init__(
        self,
        topic: str,
        brokers: Brokers,
        log_level: str,
        max_produce_buffer_ms: int,
        max_message_size: int,
        encoder: KafkaEncoder,
        *,
        exactly_once: bool = True,
        config: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        name: str,
        topic: str,
        brokers: Brokers,
        log_level: str,
        max_produce_buffer_ms: int,
        max_message_size: int,
        encoder: KafkaEncoder,
        /,
        *,
        exactly_once: bool = True,
        config: Mapping[str, Any] | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        topic: str,
        brokers: Brokers,
        *,
        encoder: KafkaEncoder,
        log_level: str = "Warn",
        max_produce_buffer_ms: int = MAX_PRODUCE_BUFFER_MS,
        max_message_size: int = MAX_MESSAGE_SIZE,
        exactly_once: bool = True,
        config: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> None: ...
    def __init__(self, *arguments: Any, **named: Any) -> None:
        given = _SINK.bind("KafkaSinkConfig", arguments, named)
        self.topic: str = given["topic"]
        self.brokers: Brokers = given["brokers"]
        self.log_level: str = given.get("log_level", "Warn")
        self.max_produce_buffer_ms: int = given.get("max_produce_buffer_ms", MAX_PRODUCE_BUFFER_MS)
        self.max_message_size: int = given.get("max_message_size", MAX_MESSAGE_SIZE)
        self.encoder: KafkaEncoder = given["encoder"]
        self.exactly_once: bool = given.get("exactly_once", True)
        self.config: Mapping[str, Any] = _own_copy(given.get("config"))
        self.name: str | None = given.get("name")

    def __repr__(self) -> str:
        return f"KafkaSinkConfig({_shown_topic(self)}, encoder={self.encoder!r})"


class _Arguments:
    """The arguments of a config: by position, with or without a name in front of them all, or by keyword."""

    def __init__(self, *positional: str, needed: tuple[str, ...], keywords: tuple[str, ...]) -> None:
        self._positional = positional
        self._needed = needed
        self._keywords = keywords

    def bind(self, owner: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments by name, whichever way they were given."""
        has_name = len(arguments) == len(self._positional) + 1
        names = ("name", *self._positional) if has_name else self._positional
        given = dict(zip(names, arguments, strict=False))
        twice = given.keys() & named.keys()
        unknown = named.keys() - {"name", *self._positional, *self._keywords}
        given |= named
        if len(arguments) > len(names) or twice or unknown or not given.keys() >= set(self._needed):
            shown = ", ".join([*map(label, arguments), *(f"{name}={label(value)}" for name, value in named.items())])
            raise WallarooParameterError(
                f"{owner} takes ({', '.join(self._positional)}), with a name in front or not, and by keyword "
                f"{', '.join(self._keywords)}; got ({shown})."
            )
        return given


_SOURCE = _Arguments(
    *("topic", "brokers", "log_level", "decoder"),
    needed=("topic", "brokers", "decoder"),
    keywords=("start", "group", "config"),
)
_SINK = _Arguments(
    *("topic", "brokers", "log_level", "max_produce_buffer_ms", "max_message_size", "encoder"),
    needed=("topic", "brokers", "encoder"),
    keywords=("exactly_once", "config"),
)


def _own_copy(config: Any) -> Any:
    """Return a copy, so that one dictionary can be changed for the next config; what is none is refused later."""
    return {} if config is None else dict(config) if isinstance(config, Mapping) else config


def _shown_topic(config: KafkaSourceConfig | KafkaSinkConfig) -> str:
    # Not the settings: there may be a password among them.
    name = "" if config.name is None else f"name={config.name!r}, "
    return f"{name}topic={config.topic!r}, brokers={config.brokers!r}"
