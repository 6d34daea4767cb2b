"""Checks of the configs of Kafka sources and sinks. Each check yields a sentence per mistake."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from wallaroo.addresses import port_number
from wallaroo.connectors.kafka.config import EARLIEST, LATEST, LOG_LEVELS, KafkaSinkConfig, KafkaSourceConfig
from wallaroo.connectors.kafka.settings import CALLABLE, servers, why_refused
from wallaroo.errors import WallarooParameterError
from wallaroo.introspection import a_kind_of

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_BROKERS_EXAMPLE = '[("127.0.0.1", "9092")]'
_LONGEST_LINGER_MS = 900_000
_SIZES = 1_000, 1_000_000_000


def common_mistakes(config: KafkaSourceConfig | KafkaSinkConfig, role: str) -> Iterator[str]:
    """Check what sources and sinks have in common: topic, brokers, log level and settings."""
    yield from topic_mistakes(config.topic, role)
    yield from broker_mistakes(config.brokers, role)
    if config.log_level not in LOG_LEVELS:
        yield f"log_level of the {role} must be one of {', '.join(LOG_LEVELS)}; got {a_kind_of(config.log_level)}"
    yield from setting_mistakes(config.config, role)


def topic_mistakes(topic: Any, role: str) -> Iterator[str]:
    """Check the name of a topic.

    >>> list(topic_mistakes("two words", "source"))
    ["the topic of the source has letters, digits, and . _ - in its name, at most 249; got 'two words' (a str)"]
    """
    if not isinstance(topic, str) or not topic:
        yield f"the topic of the {role} must be a string such as 'words'; got {a_kind_of(topic)}"
    elif not _TOPIC.fullmatch(topic) or topic in {".", ".."}:
        yield f"the topic of the {role} has letters, digits, and . _ - in its name, at most 249; got {a_kind_of(topic)}"


def broker_mistakes(brokers: Any, role: str) -> Iterator[str]:
    """Check a list of brokers.

    >>> list(broker_mistakes([("127.0.0.1", "9092")], "sink"))
    []
    """
    if not isinstance(brokers, list | tuple) or not brokers:
        given = "an empty list" if isinstance(brokers, list | tuple) else a_kind_of(brokers)
        yield f"brokers of the {role} must be a list of pairs of host and port: write {_BROKERS_EXAMPLE}; got {given}"
        return
    for broker in brokers:
        if not isinstance(broker, list | tuple) or len(broker) != 2:
            yield (
                f"each of the brokers of the {role} must be a pair of host and port: write {_BROKERS_EXAMPLE}; got "
                f"{a_kind_of(broker)}"
            )
            return
        host, port = broker
        if not (isinstance(host, str) and host):
            yield f"the host of a broker of the {role} must be a string such as '127.0.0.1'; got {a_kind_of(host)}"
        try:
            if port_number(port) == 0:
                yield f"the port of a broker of the {role} cannot be 0: give the one that it listens on"
        except WallarooParameterError as error:
            yield f"broker of the {role}: {error}"


def setting_mistakes(config: Any, role: str) -> Iterator[str]:
    """Check the settings for librdkafka as far as it can be done without it."""
    if not isinstance(config, Mapping):
        yield (
            f'config of the {role} must be a dictionary of settings, such as {{"security.protocol": "SSL"}}; got '
            f"{a_kind_of(config)}"
        )
        return
    for name, value in config.items():
        if not isinstance(name, str):
            yield f"the names in config of the {role} must be strings; got {a_kind_of(name)}"
        elif reason := why_refused(name, is_sink=role == "sink"):
            yield f"config of the {role} cannot have {name!r}: {reason}"
        elif name in CALLABLE:
            if not callable(value):
                yield f"{name!r} in config of the {role} must be a function; got {a_kind_of(value)}"
        elif not isinstance(value, str | int | float):
            yield f"{name!r} in config of the {role} must be a string, a number or a boolean; got {a_kind_of(value)}"


def start_mistakes(start: Any) -> Iterator[str]:
    """Check where a source starts.

    >>> list(start_mistakes("earliest")), len(list(start_mistakes("now")))
    ([], 1)
    """
    if isinstance(start, datetime):
        if start.utcoffset() is None:
            yield (
                "start of the source is a datetime without a time zone, which every machine would read in its own: "
                f"write datetime(..., tzinfo=timezone.utc); got {start.isoformat(sep=' ')}"
            )
    elif start not in {EARLIEST, LATEST} if isinstance(start, str) else True:
        yield (
            f'start of the source must be "{EARLIEST}", "{LATEST}", or a datetime with a time zone; got '
            f"{a_kind_of(start)}"
        )


def group_mistakes(group: Any) -> Iterator[str]:
    """Check the name of the consumer group."""
    if group is not None and not (isinstance(group, str) and group):
        yield f"group of the source must be a string, the name of a consumer group; got {a_kind_of(group)}"


def produce_mistakes(config: KafkaSinkConfig) -> Iterator[str]:
    """Check what only sinks have."""
    linger: Any = config.max_produce_buffer_ms
    if not _is_number(linger) or not 0 <= linger <= _LONGEST_LINGER_MS:
        yield (
            "max_produce_buffer_ms of the sink must be a whole number of milliseconds, from 0 to "
            f"{_LONGEST_LINGER_MS}; got {a_kind_of(linger)}"
        )
    size: Any = config.max_message_size
    least, most = _SIZES
    if not _is_number(size) or not least <= size <= most:
        yield f"max_message_size of the sink must be a number of bytes, from {least} to {most}; got {a_kind_of(size)}"
    exactly_once: Any = config.exactly_once
    if not isinstance(exactly_once, bool):
        yield f"exactly_once of the sink must be True or False; got {a_kind_of(exactly_once)}"


_SHARED = ("exactly_once", "max_message_size", "max_produce_buffer_ms", "config")
"""What the connection to a topic depends on, apart from where it is."""


def sharing_mistake(one: KafkaSinkConfig, other: KafkaSinkConfig) -> str | None:
    """Return what is wrong with two sinks of one topic, which share a connection; None if nothing is.

    >>> brokers = [("kafka1", "9092")]
    >>> make = lambda **options: KafkaSinkConfig("counts", brokers, encoder=None, **options)
    >>> sharing_mistake(make(), make(exactly_once=False))
    "write to the topic 'counts' with different exactly_once: give it the same value in both"
    """
    if one.topic != other.topic:
        return None
    brokers, of_other = ({(host, int(port)) for host, port in config.brokers} for config in (one, other))
    if not brokers & of_other:
        return None  # As far as one can tell, another cluster.
    # Names of connections are made of the list as it is written.
    if servers(one.brokers) != servers(other.brokers):
        return f"write to the topic {one.topic!r} with different lists of brokers: give both the same list"
    for name in _SHARED:
        if getattr(one, name) != getattr(other, name):
            return f"write to the topic {one.topic!r} with different {name}: give it the same value in both"
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
