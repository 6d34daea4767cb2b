"""The options that say how much an application takes in at the most."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

import click

from wallaroo.errors import WallarooError
from wallaroo.ingress.limits import Limits
from wallaroo.sizes import parse_size, readable_size

Command = TypeVar("Command", bound=Callable[..., Any])


def _size(least: int, most: int | None = None) -> Callable[[click.Context, click.Parameter, str | None], int | None]:
    """Return a callback that reads sizes such as 64MiB, from `least` to `most` bytes."""

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
    "max_message_size": (_size(1, most=1 << 30), "The largest message; a longer one closes its connection."),
    "max_log": (_size(1 << 20), "Disk space of each source's log; when it is used up, senders have to wait."),
    "max_unfinished": (_size(1 << 20), "Memory for messages that have not come completely."),
}


_LESS = dict.fromkeys(("max_message_size", "max_unfinished"), ", or what there is memory for")


def limit_options(command: Command) -> Command:
    """Add the options to a command."""
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
        help="Senders connected to each source at once; one more is closed at once.",
    )(command)


def limits_from(given: dict[str, Any]) -> Limits:
    """Return the limits that a command was given.

    >>> limits_from({"max_connections": 5, "max_log": None}).max_connections
    5
    """
    chosen = {each.name: given[each.name] for each in fields(Limits) if given.get(each.name) is not None}
    return Limits(**chosen, chosen=frozenset(chosen))
