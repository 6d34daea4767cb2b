"""The options of `wallaroo NAME`, with their help texts; a command lists the groups that it takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from wallaroo.cli.framing import FRAMING_NAMES, SEND_FRAMING_NAMES
from wallaroo.cli.option_values import (
    LETTER_STATES,
    time_or_age,
)

Command = TypeVar("Command", bound=Callable[..., Any])


def all_of(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return a decorator that adds options to a command, to be listed in this order by its help."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


check_options = all_of(
    click.option("--application-module", metavar="MODULE", help="The same as MODULE, as machida is given it."),
)
"""Which module to check."""

home_options = all_of(
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

new_script_options = all_of(
    click.option("--sink", is_flag=True, help="Write one that receives outputs, instead of one that sends messages."),
)
"""What kind of script to write."""

filter_options = all_of(
    click.option("--pipeline", metavar="NAME", help="Only those of this pipeline."),
    click.option("--step", metavar="NAME", help="Only those of this step; it may be decoder, choose or encoder."),
    click.option("--error", metavar="TEXT", help="Only those whose error contains this text, ignoring case."),
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
list_options = all_of(
    _STATE,
    click.option("--last", type=click.IntRange(1), metavar="N", help=f"Only the newest N. In a table: {LAST}."),
    click.option(
        "--json", "as_json", is_flag=True, help="Print each as a JSON object on a line, with everything that is known."
    ),
)
"""How to list dead letters."""

show_options = all_of(click.option("--json", "as_json", is_flag=True, help="Everything that is known, as JSON."))
"""How to show a dead letter."""

replay_options = all_of(
    click.option("--all", "everything", is_flag=True, help="All that have not been replayed yet."),
    click.option("--again", is_flag=True, help="Also those that have been replayed already."),
)
"""Which dead letters to replay."""

delete_options = all_of(
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

send_options = all_of(
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
    click.option(
        "--rate",
        type=click.FloatRange(0, min_open=True),
        metavar="NUMBER",
        help="Send this many messages per second, evenly.",
    ),
    click.option(
        "--repeat", type=click.IntRange(1), default=1, metavar="NUMBER", help="Send the file this many times."
    ),
    click.option("--limit", type=click.IntRange(1), metavar="NUMBER", help="Stop after this many messages."),
    click.option(
        "--retry",
        type=click.FloatRange(0),
        default=10,
        show_default=True,
        metavar="SECONDS",
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

receive_options = all_of(
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
    click.option("--messages", type=click.IntRange(1), metavar="NUMBER", help="Stop after this many messages."),
    click.option(
        "--seconds",
        type=click.FloatRange(0, min_open=True),
        metavar="SECONDS",
        help="Stop after this many seconds.",
    ),
    click.option(
        "--idle",
        type=click.FloatRange(0, min_open=True),
        metavar="SECONDS",
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
        show_default="OUTPUT.batches",
        help="With --effectively-once: the file that records which blocks were received, for the next start.",
    ),
    click.option("--from-beginning", is_flag=True, help="A topic only: begin with its oldest messages."),
    *_TOPIC,
    click.option("--quiet", is_flag=True, help="No summary at the end."),
)
"""What to receive, until when, and where it is written."""
