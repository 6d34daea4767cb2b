"""The flags of the original: accepted, so that its command lines work unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

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
