"""The values of options: each callback checks the text that a user has given, and returns what it stands for."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import datetime

import click

from wallaroo.engine.delivery.error_policy import OnError
from wallaroo.errors import WallarooError
from wallaroo.sizes import parse_size, readable_size

LETTER_STATES = ("waiting", "queued", "replayed")
"""The states of a dead letter."""


def size_between(
    least: int, most: int | None = None
) -> Callable[[click.Context, click.Parameter, str | None], int | None]:
    """Return a callback that parses sizes such as 64MiB, from `least` to `most` bytes."""

    def read(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
        if text is None:
            return None
        try:
            size = parse_size(text)
        except WallarooError as error:
            raise click.BadParameter(str(error), context, parameter) from error
        if size < least:
            reason = f"{text} is too little: it has to be {readable_size(least)} or more."
        elif most is not None and size > most:
            reason = f"{text} is too much: it can be {readable_size(most)} at the most."
        else:
            return size
        raise click.BadParameter(reason, context, parameter)

    return read


_ADDRESS = r"(\[[\da-fA-F:.]+\]|[^\s/,:\[\]]+):\d+"
_MASTERS = re.compile(
    r"local(\[(\*|[1-9]\d*)(,[1-9]\d*)?\])?"
    rf"|spark://{_ADDRESS}(,{_ADDRESS})*"
    r"|yarn|k8s://\S+"
)
_HEAP = "spark.driver.memory"


def master_url(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    """Check the value of `--master`."""
    if not _MASTERS.fullmatch(value):
        raise click.BadParameter(
            f"{value!r} is not a Spark master. Write local[*] for this machine, local[4] for four of its cores, or "
            "spark://host:7077 for a cluster."
        )
    return value


def setting(
    _context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    """Split the values of `--spark-conf` into keys and values."""
    return tuple(_key_and_value(text) for text in values)


def _key_and_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise click.BadParameter(f"{text!r}: write KEY=VALUE, for example {_HEAP}=4g.")
    if not key.startswith("spark."):
        raise click.BadParameter(f"{key!r} is not a Spark setting: their names begin with 'spark.'.")
    if key == _HEAP and not re.fullmatch(r"[1-9]\d*[kmgKMG]", value):
        raise click.BadParameter(f"{value!r} is not an amount of memory for {key}. Write 4g, or 1500m.")
    return key, value


def policy(_context: click.Context, _parameter: click.Parameter, value: str) -> OnError:
    """Check the value of `--on-error`."""
    try:
        return OnError.parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


SHORTEST_SECONDS = 0.1
_SECONDS = {
    "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0
}  # fmt: skip


def parse_duration(text: str) -> float:
    """Return a duration in seconds; it has a unit, as in 500ms, 30s, 10m (or 10min), 2h and 1d.

    >>> parse_duration("1.5min"), parse_duration("10m"), parse_duration("250ms")
    (90.0, 600.0, 0.25)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", text)
    if found is None or found[2] not in _SECONDS:
        raise ValueError(f"{text!r} is not a span of time. Examples: 500ms, 30s, 10m, 2h, 1d.")
    return round(float(found[1]) * _SECONDS[found[2]], 9)


def time_between_commits(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """Parse the option for the time between commits; a number alone is in nanoseconds, as in the original."""
    if text is None:
        return None
    try:
        seconds = parse_duration(f"{text}ns" if re.fullmatch(r"\s*\d+(\.\d+)?\s*", text) else text)
    except ValueError as error:
        raise click.BadParameter(f"{error} A number alone is in nanoseconds.", context, parameter) from error
    if seconds < SHORTEST_SECONDS:
        too_short = f"{text!r} is too short: a commit itself takes some hundredths of a second. Write 100ms."
        raise click.BadParameter(too_short, context, parameter)
    return seconds


def time_or_age(_context: click.Context, _parameter: click.Parameter, value: str | None) -> float | None:
    """Parse an option for a time."""
    return None if value is None else parse_time(value)


def parse_time(text: str, now: float | None = None) -> float:
    """Return the time that `text` denotes, in seconds since 1970: so long ago, or an ISO date or time.

    >>> parse_time("10m", now=1000.0)
    400.0
    """
    try:
        return (time.time() if now is None else now) - parse_duration(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a time. Write 10m, 2h, 1d or 2025-01-31T12:00.") from error
