"""Options of `machida` that are written in Spark's words, looked at before Spark is started for nothing."""

from __future__ import annotations

import re

import click

_ADDRESS = r"(\[[\da-fA-F:.]+\]|[^\s/,:\[\]]+):\d+"
_MASTERS = re.compile(
    r"local(\[(\*|[1-9]\d*)(,[1-9]\d*)?\])?"
    rf"|spark://{_ADDRESS}(,{_ADDRESS})*"
    r"|yarn|k8s://\S+"
)
_HEAP = "spark.driver.memory"


def master_url(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    """Check what `--master` was given."""
    if not _MASTERS.fullmatch(value):
        raise click.BadParameter(
            f"{value!r} is no Spark to run on. Write local[*] for this machine, local[4] for four of its cores, or "
            "spark://host:7077 for a cluster."
        )
    return value


def setting(
    _context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    """Cut what `--spark-conf` was given into keys and values."""
    return tuple(_key_and_value(text) for text in values)


def _key_and_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise click.BadParameter(f"{text!r}: write KEY=VALUE, for example {_HEAP}=4g.")
    if not key.startswith("spark."):
        raise click.BadParameter(f"{key!r} is no setting of Spark's: their names begin with 'spark.'.")
    if key == _HEAP and not re.fullmatch(r"[1-9]\d*[kmgKMG]", value):
        raise click.BadParameter(f"{value!r} is no amount of memory for {key}. Write 4g, or 1500m.")
    return key, value
