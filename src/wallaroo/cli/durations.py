"""Spans of time on the command line."""

from __future__ import annotations

import re

import click

SHORTEST_SECONDS = 0.1
_SECONDS = {"": 1e-9, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """Return a span of time in seconds; a number alone has nanoseconds, as in the original.

    >>> parse_duration("1.5min"), parse_duration("250ms"), parse_duration("1000000000")
    (90.0, 0.25, 1.0)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text)
    if found is None or found[2] not in _SECONDS:
        raise ValueError(f"{text!r} is not a span of time. Examples: 30s, 500ms, 2min, or nanoseconds as a number.")
    return round(float(found[1]) * _SECONDS[found[2]], 9)


def time_between_commits(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """Read the option with the time between commits (a callback of click's)."""
    if text is None:
        return None
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from error
    if seconds < SHORTEST_SECONDS:
        too_short = f"{text!r} is too short: a commit itself takes some hundredths of a second. Write 100ms."
        raise click.BadParameter(too_short, context, parameter)
    return seconds
