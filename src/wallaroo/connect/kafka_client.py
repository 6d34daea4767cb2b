"""What the scripts for Kafka share: the options for the client, and which of its errors end a script."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import click

from wallaroo.backoff import Backoff
from wallaroo.cli.kafka_topic import Settings, Topic, find_topic, parse_settings, parse_topic
from wallaroo.cli.screen import say
from wallaroo.errors import WallarooError
from wallaroo.notices import REPORT_AGAIN_SECONDS, Throttle

T = TypeVar("T")

ANSWER_SECONDS = 10.0
"""How long a broker may take for an answer, before it is asked again."""
_FIND_SECONDS = 60.0
_FIRST_RETRY_SECONDS = 0.1
_LONGEST_RETRY_SECONDS = 2.0
_LASTING = {
    "CLUSTER_AUTHORIZATION_FAILED",
    "GROUP_AUTHORIZATION_FAILED",
    "INVALID_RECORD",
    "MSG_SIZE_TOO_LARGE",
    "SASL_AUTHENTICATION_FAILED",
    "TOPIC_AUTHORIZATION_FAILED",
    "UNSUPPORTED_SASL_MECHANISM",
    "_INVALID_ARG",
    "_UNKNOWN_GROUP",
}
_HINTS = {"MSG_SIZE_TOO_LARGE": ". Allow more with --kafka-config message.max.bytes=N, and in the topic"}

_failures = Throttle(REPORT_AGAIN_SECONDS)


class TopicType(click.ParamType[Topic]):
    """The type of an option that is a topic."""

    name = "topic"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Topic:
        """Return the topic, or report a usage error."""
        try:
            return parse_topic(value) if isinstance(value, str) else value
        except WallarooError as error:
            self.fail(str(error), param, ctx)


def kafka_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options for a topic."""
    config = click.option(
        "--kafka-config",
        "config",
        metavar="NAME=VALUE",
        multiple=True,
        help="A setting of librdkafka, for example for TLS or SASL; may be given several times.",
    )
    url = "kafka://HOST:PORT/TOPIC"
    topic = click.option("--topic", type=TopicType(), metavar=url, required=True, help="The topic, which must exist.")
    return topic(config(function))


def client_settings(topic: Topic, config: tuple[str, ...], own: dict[str, Any]) -> dict[str, Any]:
    """Return the settings for a client that has some of its own; wait for the brokers, and see that the topic exists.

    Raises:
        WallarooError: It does not, or they do not answer.
    """
    settings = Settings(None, None, parse_settings(config))
    find_topic(topic, settings, retry=_FIND_SECONDS, on_wait=lambda: say(f"waiting for {topic}"))
    return settings.client(topic, {"error_cb": _tell, **own})


def raise_if_lasting(error: Any) -> None:
    """Raise an error that will not go away; after the others the client goes on."""
    # Those that come as messages say of themselves that trying again is of no use, whatever they are.
    if error.fatal() or error.name() in _LASTING:
        raise WallarooError(f"Kafka: {error.str()}{_HINTS.get(error.name(), '')}")
    _tell(error)


def patiently(call: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """Return what a call of the client returns; call again until it succeeds, or an error will not go away."""
    from confluent_kafka import KafkaException  # noqa: PLC0415

    retries = Backoff(_FIRST_RETRY_SECONDS, longest=_LONGEST_RETRY_SECONDS, jitter=0.3)
    while True:
        try:
            return call(*arguments, **named)
        except KafkaException as error:
            raise_if_lasting(error.args[0])
            time.sleep(retries.next())


def _tell(error: Any) -> None:
    _failures.add()
    if _failures.is_due:
        _failures.take()
        say(f"Kafka: {error.str()}; trying again.")
