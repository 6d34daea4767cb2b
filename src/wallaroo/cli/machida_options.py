"""The options of `machida`, with their help texts, and the flags of the original that it accepts without effect."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from wallaroo.cli.logs import FORMATS, LEVELS, Log
from wallaroo.cli.option_values import master_url, policy, setting, size_between, time_between_commits
from wallaroo.cli.options import Command, all_of
from wallaroo.ingress.limits import Limits
from wallaroo.sizes import readable_size

run_options = all_of(
    click.option("--application-module", metavar="MODULE", help="The module that defines application_setup(args)."),
    click.option(
        "--resilience-dir",
        "-r",
        metavar="DIR",
        type=click.Path(path_type=Path, file_okay=False),
        help="Where log, state and ledger are kept. Default: a folder for the application in ~/.local/state/wallaroo, "
        "in $XDG_STATE_HOME/wallaroo if that is set, or on macOS in ~/Library/Application Support/wallaroo.",
    ),
    click.option(
        "--reset",
        is_flag=True,
        help="Start without the state that is in the directory. It is moved to a folder inside it, not deleted.",
    ),
    click.option(
        "--skip-damaged",
        is_flag=True,
        help="Continue without messages in the log that the disk has damaged. What is left of them is kept in "
        "a folder.",
    ),
    click.option(
        "--name",
        "-n",
        metavar="NAME",
        help="Name of this run: by default, runs of other names have other directories.",
    ),
    click.option(
        "--worker-count",
        "-w",
        type=click.IntRange(1),
        metavar="N",
        help="Workers of each stage. Default: as many as the machine has cores, up to 8, or as the cluster has cores "
        "for.",
    ),
    click.option(
        "--buckets",
        type=click.IntRange(1),
        metavar="N",
        help="Parts into which partitioned state is divided. The number is fixed when the state is first written.",
    ),
    click.option(
        "--master",
        default="local[*]",
        show_default=True,
        metavar="URL",
        callback=master_url,
        help="The Spark master to run on: local[*], local[4], spark://host:7077, ... On a cluster of several machines, "
        "an application with states needs a --resilience-dir that all of them share.",
    ),
    click.option(
        "--spark-conf",
        multiple=True,
        metavar="KEY=VALUE",
        callback=setting,
        help="A setting for Spark; may be repeated.",
    ),
    click.option(
        "--on-error",
        default="dead-letter",
        show_default=True,
        metavar="POLICY",
        callback=policy,
        help="What to do when the application's code fails for a message. dead-letter: keep the message in a file and "
        "continue. fail: stop before it. A share (1%) or a rate (100/s, 10/min, 5/h): stop when there are more.",
    ),
    click.option(
        "--strict-keys",
        is_flag=True,
        help="Where a program lists partition_keys, make messages with other keys dead letters, instead of making a "
        "state for each such key.",
    ),
    click.option(
        "--time-between-checkpoints",
        metavar="TIME",
        callback=time_between_commits,
        show_default="1min",
        help="The longest time between two commits, such as 30s or 5min. After a failure, everything since the last "
        "commit is computed again. A number without a unit is in nanoseconds.",
    ),
    click.option(
        "--effectively-once",
        is_flag=True,
        help="Send outputs in blocks with ids, to receivers that confirm each block and drop repeated ones, such "
        "as `wallaroo receive --effectively-once`.",
    ),
)
"""What to run, where, and how."""

log_options = all_of(
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
)
"""What is logged, how, and where."""


_SIZES = {
    "max_message_size": (
        size_between(1, most=1 << 30),
        "The largest message; a connection that sends a larger one is closed.",
    ),
    "max_log": (
        size_between(1 << 20),
        "Disk space for the log of each source. When it is used up, senders have to wait.",
    ),
    "max_unfinished": (size_between(1 << 20), "Memory for messages that have not been received completely."),
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
