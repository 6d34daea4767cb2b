"""Topics of Kafka for the commands: `kafka://host:port/topic`, found at the brokers or created there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from wallaroo.addresses import Address, parse_address
from wallaroo.connectors.kafka.config_checks import topic_mistakes
from wallaroo.connectors.kafka.settings import servers
from wallaroo.errors import WallarooError

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_SCHEME = "kafka://"
_EXAMPLE = "kafka://127.0.0.1:9092/words"
_DEFAULT_PORT = 9092
KAFKA_ONLY = ("--key-separator", "--create-topic", "--kafka-config")
"""The options that only topics have, in every command."""
_TRY_SECONDS = 2.0
_PAUSE_SECONDS = 0.1


class Topic(NamedTuple):
    """A topic, and some brokers of its cluster.

    >>> str(Topic("words", (Address("kafka1", 9092), Address("kafka2", 9092))))
    'kafka://kafka1:9092,kafka2:9092/words'
    """

    name: str
    brokers: tuple[Address, ...]

    @property
    def servers(self) -> str:
        """The brokers, as librdkafka has them."""
        return servers(self.brokers)

    def __str__(self) -> str:
        return f"{_SCHEME}{self.servers}/{self.name}"


def parse_topic(text: str) -> Topic:
    """Return the topic that `text` denotes.

    >>> parse_topic("kafka://kafka1,kafka2:9093/words")
    Topic(name='words', brokers=(Address(host='kafka1', port=9092), Address(host='kafka2', port=9093)))
    >>> parse_topic("kafka://kafka1")
    Traceback (most recent call last):
    wallaroo.errors.WallarooError: 'kafka://kafka1' is not a topic: write kafka://127.0.0.1:9092/words
    """
    brokers, slash, name = text.removeprefix(_SCHEME).partition("/")
    if not (slash and brokers):
        raise WallarooError(f"{text!r} is not a topic: write {_EXAMPLE}")
    if mistakes := list(topic_mistakes(name, "URL")):
        raise WallarooError(f"{text!r} is not a topic: {mistakes[0]}")
    return Topic(name, tuple(parse_address(each, _DEFAULT_PORT) for each in brokers.split(",")))


class AddressOrTopicType(click.ParamType[Address | Topic]):
    """The type of an argument that is `host:port`, or a topic of Kafka."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Address | Topic:
        """Return the address or the topic, or report a usage error."""
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return] # converted already
        try:
            return parse_topic(value) if value.startswith(_SCHEME) else parse_address(value)
        except WallarooError as error:
            self.fail(str(error), param, ctx)


class Settings(NamedTuple):
    """What the options about Kafka say."""

    separator: bytes | None
    """What stands between the key and the value of a line; None if lines have no keys."""
    create: int | None
    """How many partitions a new topic gets; None if none is created."""
    given: dict[str, str]
    """The settings for the client, as given on the command line."""

    def client(self, topic: Topic, own: dict[str, Any]) -> dict[str, Any]:
        """Return the settings for a client that has some of its own."""
        # The commands report what goes wrong, in fewer words.
        return {"client.id": "wallaroo", "log_level": 0, **own, **self.given, "bootstrap.servers": topic.servers}


def parse_settings(pairs: Iterable[str]) -> dict[str, str]:
    """Return the settings in texts such as `name=value`.

    >>> parse_settings(["security.protocol=SSL", "ssl.ca.location=/etc/ca.pem"])
    {'security.protocol': 'SSL', 'ssl.ca.location': '/etc/ca.pem'}
    """
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise click.UsageError(f"--kafka-config {pair}: write NAME=VALUE, such as security.protocol=SSL")
        found[name.strip()] = value.strip()
    return found


def settings_of(separator: str | None, create: int | None, config: Iterable[str]) -> Settings:
    """Return what the options about Kafka say."""
    return Settings(separator.encode() if separator else None, create, parse_settings(config))


def refuse_given(context: click.Context, options: Iterable[str], why: str) -> None:
    """Refuse options that mean nothing for this kind of address, if they are on the command line."""
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name or "")
        if parameter.opts[0] in options and given is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{parameter.opts[0]} {why}")


def find_topic(
    topic: Topic, settings: Settings, *, retry: float, on_wait: Callable[[], None] = lambda: None
) -> list[int]:
    """Return the partitions of a topic, which is created if the settings say so; keep trying for `retry` seconds."""
    from confluent_kafka import KafkaException  # noqa: PLC0415 - other commands do without Kafka.
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415

    failures: list[str] = []
    try:
        admin = AdminClient(settings.client(topic, {"error_cb": lambda error: failures.append(error.str())}))
    except KafkaException as error:
        raise WallarooError(f"--kafka-config is refused: {error.args[0].str()}") from error
    deadline = time.monotonic() + retry
    waiting = False
    while True:
        admin.poll(0)
        try:
            found = admin.list_topics(timeout=_TRY_SECONDS).topics.get(topic.name)
        except KafkaException as error:
            if time.monotonic() + _PAUSE_SECONDS > deadline:
                admin.poll(0)
                reason = (failures or [error.args[0].str()])[-1]
                raise WallarooError(f"cannot reach {topic.servers}: {reason}. Is a broker running there?") from error
            if not waiting:
                waiting = True
                on_wait()
            time.sleep(_PAUSE_SECONDS)
            continue
        if found is not None and found.partitions and all(each.leader >= 0 for each in found.partitions.values()):
            return sorted(found.partitions)
        if found is None:
            _create(admin, topic, settings.create)
        time.sleep(_PAUSE_SECONDS)


def _create(admin: AdminClient, topic: Topic, partitions: int | None) -> None:
    from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415
    from confluent_kafka.cimpl import NewTopic  # noqa: PLC0415

    if partitions is None:
        raise WallarooError(
            f"there is no topic {topic.name!r} at {topic.servers}: create it, for example with --create-topic 1"
        )
    try:
        admin.create_topics([NewTopic(topic.name, partitions)])[topic.name].result()
    except KafkaException as error:
        # Somebody else may have been faster.
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise WallarooError(f"cannot create the topic {topic.name!r}: {error.args[0].str()}") from error
