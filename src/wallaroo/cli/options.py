"""The options of the commands, with their help texts; a command lists the groups that it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import click

from wallaroo.cli.framing import FRAMING_NAMES, SEND_FRAMING_NAMES
from wallaroo.cli.logs import FORMATS, LEVELS, Log
from wallaroo.cli.option_values import (
    LETTER_STATES,
    master_url,
    policy,
    setting,
    size_between,
    time_between_commits,
    time_or_age,
)
from wallaroo.ingress.limits import Limits
from wallaroo.sizes import readable_size

Command = TypeVar("Command", bound=Callable[..., Any])


def _all_of(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return a decorator that adds options to a command, to be listed in this order by its help."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


run_options = _all_of(
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

log_options = _all_of(
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


check_options = _all_of(
    click.option("--application-module", metavar="MODULE", help="The same as MODULE, as machida is given it."),
)
"""Which module to check."""

home_options = _all_of(
    click.option(
        "--resilience-dir",
        "-r",
        metavar="DIR",
        type=click.Path(path_type=Path, file_okay=False),
        help="The directory of the application, as it was given to machida.",
    ),
    click.option("--application", "-a", metavar="NAME", help="The name of an application in its default directory."),
    click.option("--name", "-n", metavar="NAME", help="The name of its run, if one was given to machida."),
)
"""Which application's directory."""

filter_options = _all_of(
    click.option("--pipeline", metavar="NAME", help="Only those of this pipeline."),
    click.option("--step", metavar="NAME", help="Only those of this step; it may be decoder, choose or encoder."),
    click.option("--error", metavar="TEXT", help="Only those whose error contains this text."),
    click.option(
        "--since",
        metavar="TIME",
        callback=time_or_age,
        help="Only those since then: 30s, 10m, 2h or 1d ago, or a time such as 2025-01-31T12:00.",
    ),
    click.option(
        "--before", metavar="TIME", callback=time_or_age, help="Only those before then, in the same form as --since."
    ),
)
"""Which dead letters."""

_STATE = click.option("--state", type=click.Choice(LETTER_STATES), help="Only those in this state.")

LAST = 50
list_options = _all_of(
    _STATE,
    click.option("--last", type=click.IntRange(1), metavar="N", help=f"Only the newest N. In a table: {LAST}."),
    click.option(
        "--json", "as_json", is_flag=True, help="Print each as a JSON object on a line, with everything that is known."
    ),
)
"""How to list dead letters."""

show_options = _all_of(click.option("--json", "as_json", is_flag=True, help="Everything that is known, as JSON."))
"""How to show a dead letter."""

replay_options = _all_of(
    click.option("--all", "everything", is_flag=True, help="All that have not been replayed yet."),
    click.option("--again", is_flag=True, help="Also those that have been replayed already."),
)
"""Which dead letters to replay."""

delete_options = _all_of(
    _STATE,
    click.option("--all", "everything", is_flag=True, help="All of them."),
    click.option("--yes", "-y", is_flag=True, help="Do not ask."),
)
"""Which dead letters to delete."""

_TOPIC = (
    click.option(
        "--key-separator",
        metavar="TEXT",
        help="A topic only: this stands between the key and the value of each line.",
    ),
    click.option(
        "--create-topic",
        type=click.IntRange(1),
        metavar="PARTITIONS",
        help="A topic only: create it with this many partitions if it does not exist.",
    ),
    click.option(
        "--kafka-config",
        metavar="NAME=VALUE",
        multiple=True,
        help="A topic only: a setting of librdkafka, for example for TLS or SASL; may be given several times.",
    ),
)

send_options = _all_of(
    click.option(
        "--file",
        "path",
        type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
        default="-",
        help="The file to send; - (the default) is standard input.",
    ),
    click.option(
        "--framing",
        type=click.Choice(SEND_FRAMING_NAMES),
        default="u32be",
        show_default=True,
        help="The header in front of each message, which holds its length. lines: a newline after each message "
        "instead. none: the file is sent as it is.",
    ),
    click.option("--raw", is_flag=True, help="The file has headers already: send it as it is."),
    click.option("--rate", type=click.FloatRange(0, min_open=True), help="Send this many messages per second, evenly."),
    click.option("--repeat", type=click.IntRange(1), default=1, help="Send the file this many times."),
    click.option("--limit", type=click.IntRange(1), help="Stop after this many messages."),
    click.option(
        "--retry",
        type=click.FloatRange(0),
        default=10,
        show_default=True,
        help="Try to connect for up to this many seconds.",
    ),
    click.option(
        "--wait",
        type=click.FloatRange(0),
        metavar="SECONDS",
        help="Give up when the receiver has accepted nothing, or has not confirmed, for this long. 0: do not wait for "
        "the confirmation. Default: no limit.",
    ),
    *_TOPIC,
    click.option("--quiet", is_flag=True, help="Show nothing but errors."),
)
"""What to send, and how."""

receive_options = _all_of(
    click.option(
        "--output",
        "path",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Write to this file (emptied first) instead of standard output.",
    ),
    click.option(
        "--framing",
        type=click.Choice(FRAMING_NAMES),
        default="none",
        show_default=True,
        help="The header in front of each message; each is printed on a line of its own. none: the bytes are printed "
        "as they are received, and each line counts as a message.",
    ),
    click.option("--messages", type=click.IntRange(1), help="Stop after this many messages."),
    click.option("--seconds", type=click.FloatRange(0, min_open=True), help="Stop after this many seconds."),
    click.option(
        "--idle",
        type=click.FloatRange(0, min_open=True),
        help="Stop when nothing was received for this many seconds after the first data.",
    ),
    click.option("--count-only", is_flag=True, help="Print only the number of messages, at the end."),
    click.option(
        "--effectively-once",
        is_flag=True,
        help="Receive what machida --effectively-once sends: each block is written when it is complete, confirmed, and "
        "dropped if it is sent again. An output file is not emptied but continued after its last block.",
    ),
    click.option(
        "--remember",
        type=click.Path(dir_okay=False, path_type=Path),
        help="With --effectively-once: the file that records which blocks were received, for the next start.  "
        "[default: OUTPUT.batches]",
    ),
    click.option("--from-beginning", is_flag=True, help="A topic only: begin with its oldest messages."),
    *_TOPIC,
    click.option("--quiet", is_flag=True, help="No summary at the end."),
)
"""What to receive, until when, and where it is written."""
