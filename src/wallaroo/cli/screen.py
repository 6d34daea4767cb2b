"""The commands' output for the user: numbers, errors, exit codes and a progress bar, the same everywhere.

Everything goes to standard error: standard output is for data. Rich is imported only when used, so that a command
without such output starts quickly.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

import click

from wallaroo.errors import WallarooError
from wallaroo.notices import Notice
from wallaroo.sizes import plural
from wallaroo.topology.drawing import draw
from wallaroo.topology.model import Application

EXIT_CODES = {
    0: "stopped on request",
    1: "cannot continue, or any other failure",
    2: "a mistake in the command line",
    3: "the application cannot be imported or built, or cannot load the states that it has saved",
    4: "cannot listen on an address, or a receiver's name is unknown",
    5: "the directory cannot be used, is in use, or holds another application's state",
    6: "Java or Spark cannot be started",
    7: "too many errors in the application's code, by --on-error",
}

SEND_EXIT_CODES = {
    0: "everything was sent, and the receiver has confirmed all of it (with --wait 0: sent)",
    1: "no receiver, an input that cannot be read or framed, or any other failure",
    2: "a mistake in the command line",
    8: "not confirmed: the connection broke or ended early, or the receiver took longer than --wait",
    130: "stopped by Ctrl-C, not confirmed",
}


def exit_codes_help(table: dict[int, str]) -> str:
    """Return a table for click's help; the leading character keeps its lines from being rewrapped."""
    width = max(len(str(code)) for code in table)
    lines = (f"  {code:>{width}}  {meaning}" for code, meaning in table.items())
    return "\b\nExit codes:\n" + "\n".join(lines)


_REFRESH_SECONDS = 0.1


def rate(number: int, noun: str, seconds: float) -> str:
    """Return the rate per second, or an empty string if it would be meaningless.

    >>> rate(3000, "message", 1.5), rate(0, "message", 0.0)
    (', 2,000 messages/s', '')
    """
    return f", {number / seconds:,.0f} {noun}s/s" if number and seconds > 0 else ""


_notices: list[Notice] = []


def say(text: str) -> None:
    """Print a line for the user, or pass it to the notice set by `said_through`."""
    if _notices:
        _notices[-1](text)
    else:
        click.echo(text, err=True)


@contextmanager
def said_through(notice: Notice) -> Iterator[None]:
    """Pass everything that `say` gets to `notice` inside this context."""
    _notices.append(notice)
    try:
        yield
    finally:
        _notices.pop()


@contextmanager
def plain_errors(*, exit_codes: bool = False) -> Iterator[None]:
    """End the command with a one-line error if Wallaroo or the system refuses something.

    The exit code is 1, or, with `exit_codes`, that of the kind of error.
    """
    try:
        yield
    except WallarooError as error:
        refuse(str(error), error.exit_code if exit_codes else 1)
    except OSError as error:
        refuse(f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error))


_READER_GONE = 128 + signal.SIGPIPE
"""The exit code that a shell reports for a command ended by a broken pipe."""


@contextmanager
def ends_with_reader() -> Iterator[None]:
    """End the command quietly when its output is closed, as in `wallaroo ... | head`.

    The exit code is that of other commands in this case.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Flushing what is left in the buffer would fail again when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(_READER_GONE)


def refuse(text: str, exit_code: int = 1) -> NoReturn:
    """End the command with `text` as its error message."""
    refusal = click.ClickException(text)
    refusal.exit_code = exit_code  # type: ignore[misc] # Click reads it from the instance.
    raise refusal


@contextmanager
def progress_bar(
    title: str, noun: str, total: int | None, *, visible: bool = True
) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on standard error inside this context.

    Yields a function to call with the amount of `total` that is done and the number of messages. Without a terminal
    nothing is shown.
    """
    if not (visible and sys.stderr.isatty()):
        yield lambda _done, _messages: None
        return

    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (
        SpinnerColumn(),
        TextColumn(title),
        BarColumn(),
        TextColumn("{task.fields[status]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=total, status=plural(0, noun))
        started = time.monotonic()
        shown = 0.0

        def show(done: int, messages: int) -> None:
            nonlocal shown
            now = time.monotonic()
            if now - shown >= _REFRESH_SECONDS:
                shown = now
                status = plural(messages, noun) + rate(messages, noun, now - started)
                progress.update(task, completed=done, status=status)

        yield show


_NARROWEST, _WIDEST = 60, 100
_LINES = re.compile("[─═│╭╮╰╯├╞┬╤╕╘▶]+")
_WITHOUT_UNICODE = str.maketrans("─═│╭╮╰╯├╞┬╤╕╘▶⇉◆◇○—", "-=|++++++++++>>*.o-")


def show_drawing(application: Application) -> None:
    """Print a drawing of the application, and an empty line after it."""
    click.echo(drawing_for_screen(application))


def drawing_for_screen(application: Application) -> str:
    """Return a drawing of the application that fits the screen, with an empty line at its end."""
    width = shutil.get_terminal_size((_WIDEST, 0)).columns
    drawing = draw(application, min(max(width, _NARROWEST), _WIDEST))
    return coloured(in_encoding(drawing, sys.stdout.encoding or "utf-8")) + "\n"


def in_encoding(drawing: str, encoding: str) -> str:
    """Return a drawing with characters outside an encoding replaced.

    >>> in_encoding("│ split ╞══▶│ café │", "ascii"), in_encoding("│ café │", "utf-8")
    ('| split +==>| caf? |', '│ café │')
    """
    try:
        drawing.encode(encoding)
    except UnicodeEncodeError:
        return drawing.translate(_WITHOUT_UNICODE).encode(encoding, "replace").decode(encoding)
    return drawing


def coloured(drawing: str) -> str:
    """Return a drawing with its names in bold and its lines dimmed."""
    lines = drawing.split("\n")
    shown = []
    for before, line in zip(["", *lines], lines, strict=False):
        if not before and not line.startswith("◆"):
            shown.append(click.style(line, bold=True) if line else line)
        else:
            shown.append(_LINES.sub(lambda found: click.style(found[0], dim=True), line))
    return "\n".join(shown)
