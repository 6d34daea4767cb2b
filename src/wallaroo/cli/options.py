"""Options of the commands: their types, their checks, and the flags of the original that are accepted unchanged."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import click

from wallaroo.cli.logs import FORMATS, LEVELS, Log
from wallaroo.engine.delivery.error_policy import OnError
from wallaroo.errors import WallarooError
from wallaroo.ingress.limits import Limits
from wallaroo.sizes import parse_size, readable_size

Command = TypeVar("Command", bound=Callable[..., Any])


def _size(least: int, most: int | None = None) -> Callable[[click.Context, click.Parameter, str | None], int | None]:
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


_SIZES = {
    "max_message_size": (
        _size(1, most=1 << 30),
        "The largest message; a connection that sends a larger one is closed.",
    ),
    "max_log": (_size(1 << 20), "Disk space for the log of each source. When it is used up, senders have to wait."),
    "max_unfinished": (_size(1 << 20), "Memory for messages that have not been received completely."),
}


_LESS = dict.fromkeys(("max_message_size", "max_unfinished"), ", or what there is memory for")


def limit_options(command: Command) -> Command:
    """Add the options for limits to a command."""
    usual = Limits()
    for name, (callback, meaning) in reversed(_SIZES.items()):
        command = click.option(
            f"--{name.replace('_', '-')}",
            callback=callback,
            show_default=readable_size(getattr(usual, name)).replace(" ", "") + _LESS.get(name, ""),
            metavar="SIZE",
            help=meaning,
        )(command)
    return click.option(
        "--max-connections",
        type=click.IntRange(1),
        show_default=str(usual.max_connections),
        metavar="N",
        help="Maximum number of connections to each source; further ones are closed.",
    )(command)


def limits_from(given: dict[str, Any]) -> Limits:
    """Return the limits given to a command.

    >>> limits_from({"max_connections": 5, "max_log": None}).max_connections
    5
    """
    chosen = {each.name: given[each.name] for each in fields(Limits) if given.get(each.name) is not None}
    return Limits(**chosen, chosen=frozenset(chosen))


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


_WITH_VALUE = {
    "--metrics": "-m",
    "--control": "-c",
    "--data": "-d",
    "--my-control": "-x",
    "--my-data": "-y",
    "--external": "-e",
    "--file": "-f",
    "--event-log-file-size": "-l",
    "--join": "-j",
    "--stop-pause": "-u",
    "--spike-seed": None,
    "--spike-prob": None,
    "--spike-margin": None,
    "--phone-home": "-p",
    "--resilience-dos-server": None,
    "--ponythreads": None,
    "--ponyminthreads": None,
    "--ponysuspendthreshold": None,
    "--ponycdinterval": None,
    "--ponygcinitial": None,
    "--ponygcfactor": None,
}
_SWITCHES = {
    "--cluster-initializer": "-t",
    "--log-rotation": None,
    "--spike-drop": None,
    "--run-with-resilience": None,
    "--resilience-no-local-file-io": None,
    "--resilience-enable-io-journal": None,
    "--ponynoblock": None,
    "--ponynoyield": None,
    "--ponypin": None,
    "--ponynopin": None,
    "--ponypinasio": None,
}

MEANINGLESS = {*_WITH_VALUE, *_SWITCHES}


def original_flags(command: Command) -> Command:
    """Add the original's flags to a command, hidden from its help text."""
    for flags, is_flag in ((_WITH_VALUE, False), (_SWITCHES, True)):
        for long, short in flags.items():
            names = (long, short) if short else (long,)
            command = click.option(*names, is_flag=is_flag, hidden=True, default=None)(command)
    return command


def acknowledged(given: dict[str, Any]) -> str:
    """Return the given flags that have no effect here, for one line to the user.

    >>> acknowledged({"metrics": "127.0.0.1:5001", "cluster_initializer": True, "data": None})
    '--metrics, --cluster-initializer'
    """
    used = (long for long in (*_WITH_VALUE, *_SWITCHES) if given.get(long[2:].replace("-", "_")) is not None)
    return ", ".join(used)


def log_options(command: Command) -> Command:
    """Add the options for what is logged, how, and where."""
    for option in reversed(
        [
            click.option(
                "--log-level",
                type=click.Choice([*LEVELS, "warn"]),
                metavar=f"[{'|'.join(LEVELS)}]",
                show_default="info; for Spark's own log file: warning",
                help="The lowest level that is shown, and that Spark writes to its log file. The line that says that "
                "the application is ready is always shown. debug also draws the application at the start.",
            ),
            click.option(
                "--log-format",
                type=click.Choice(FORMATS),
                default="text",
                show_default=True,
                help="text: plain lines, warnings with time and level. json: one object on each line, with time, level "
                "and message.",
            ),
            click.option(
                "--log-file",
                type=click.Path(path_type=Path, dir_okay=False),
                metavar="PATH",
                help="Also append every line that is shown to this file, with date, time and level.",
            ),
        ]
    ):
        command = option(command)
    return command


def log_from(given: dict[str, Any]) -> Log:
    """Return the log that the options ask for.

    Raises:
        OSError: The log file cannot be written.
    """
    return Log(
        LEVELS["warning" if given.get("log_level") == "warn" else given.get("log_level") or "info"],
        as_json=given.get("log_format") == "json",
        file=given.get("log_file"),
    )


def policy(_context: click.Context, _parameter: click.Parameter, value: str) -> OnError:
    """Check the value of `--on-error`."""
    try:
        return OnError.parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


SHORTEST_SECONDS = 0.1
_SECONDS = {"": 1e-9, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """Return a duration in seconds; a number without a unit is in nanoseconds, as in the original.

    >>> parse_duration("1.5min"), parse_duration("250ms"), parse_duration("1000000000")
    (90.0, 0.25, 1.0)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text)
    if found is None or found[2] not in _SECONDS:
        raise ValueError(f"{text!r} is not a span of time. Examples: 30s, 500ms, 2min, or nanoseconds as a number.")
    return round(float(found[1]) * _SECONDS[found[2]], 9)


def time_between_commits(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """Parse the option for the time between commits (a click callback)."""
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
