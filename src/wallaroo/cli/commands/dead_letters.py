"""`wallaroo dead-letters`: what an application's code could not handle, to look at and to try again."""

from __future__ import annotations

import json
import pprint
import sys
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from wallaroo.cli.dead_letter_queries import (
    STATES,
    WAITING,
    DeadLetterQueries,
    Filter,
    filter_options,
    home_options,
    not_replayable,
)
from wallaroo.cli.screen import counted, plain_errors, say
from wallaroo.engine.transport.dead_letter_record import Letter, message_in, origin_in_words, payload_of
from wallaroo.engine.transport.plan_file import apply_import_settings_of
from wallaroo.engine.transport.serializer import Serializer
from wallaroo.errors import WallarooError

_LAST = 50
_BYTES_SHOWN = 1024
_WIDE = 10_000


@click.group(context_settings={"max_content_width": 110})
def command() -> None:
    """List, show and replay messages that an application's code could not handle.

    The application may be running or not.

    \b
    wallaroo dead-letters list --resilience-dir state/
    wallaroo dead-letters show --resilience-dir state/ 3f9a1c
    wallaroo dead-letters replay --resilience-dir state/ --step "count words"
    """  # noqa: D301 - click wants the real character.


@command.command("list")
@home_options
@filter_options
@click.option("--state", type=click.Choice(STATES), help="Only those in this state.")
@click.option("--last", type=click.IntRange(1), metavar="N", help=f"Only so many, the newest. In a table: {_LAST}.")
@click.option("--json", "as_json", is_flag=True, help="All that is known of each, as JSON, one on a line.")
def list_letters(  # noqa: PLR0913 - as many as there are options
    *,
    resilience_dir: Path | None,
    application: str | None,
    name: str | None,
    state: str | None,
    last: int | None,
    as_json: bool,
    **wanted: Any,
) -> None:
    """List dead letters, the newest last.

    A letter is waiting until it is replayed; then it is queued, until the application has taken it.

    \b
    wallaroo dead-letters list --resilience-dir state/
    wallaroo dead-letters list --application "Word Count" --step decoder --since 2h
    wallaroo dead-letters list --resilience-dir state/ --error KeyError --json
    """  # noqa: D301 - click wants the real character.
    with plain_errors():
        box = DeadLetterQueries.of(resilience_dir, application, name)
        letters = (each for each in box.letters(Filter(**wanted)) if state in {None, box.state(each)})
        if as_json:
            for letter in letters if last is None else deque(letters, last):
                click.echo(json.dumps({**letter, "state": box.state(letter)}))
            return
        shown: deque[Letter] = deque(maxlen=last or _LAST)
        number = 0
        for letter in letters:
            number += 1
            shown.append(letter)
        if not number:
            say("There are none.")
            return
        _show_table(box, shown)
        if number > len(shown):
            say(f"These are the newest of {number:,}; --last shows more.")


def _show_table(box: DeadLetterQueries, letters: Iterable[Letter]) -> None:
    from rich import box as boxes  # noqa: PLC0415 - only where something is drawn
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=boxes.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for column in ("id", "time", "pipeline", "step", "key", "from", "error", "state"):
        table.add_column(column, no_wrap=column != "error", overflow="ellipsis" if column != "error" else "fold")
    for letter in letters:
        cells = (
            letter["id"],
            _time(letter),
            letter["pipeline"],
            letter["step"],
            letter.get("key") or "",
            _position(letter),
            letter["error"].partition("\n")[0],
            box.state(letter),
        )
        table.add_row(*map(Text, cells))
    # Without a terminal nothing limits the width, and nothing is cut off.
    Console(width=None if sys.stdout.isatty() else _WIDE, highlight=False).print(table)


def _time(letter: Letter) -> str:
    return f"{datetime.fromtimestamp(letter['time']).astimezone():%Y-%m-%d %H:%M:%S}"


def _position(letter: Letter) -> str:
    if "position" in letter:
        return str(letter["position"])
    first, last = letter.get("positions", ("", ""))
    return f"{first}-{last}" if first != "" else ""


@command.command("show")
@home_options
@click.argument("letter_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="All that is known, as JSON.")
def show(
    *, resilience_dir: Path | None, application: str | None, name: str | None, letter_id: str, as_json: bool
) -> None:
    """Show all that is known of one dead letter.

    The first few characters of its ID are enough. To show the message as an object, modules of the application may
    have to be imported.

    \b
    wallaroo dead-letters show --resilience-dir state/ 3f9a1c
    """  # noqa: D301 - click wants the real character.
    sys.dont_write_bytecode = True  # Who only looks at a letter leaves nothing in the application's folder.
    with plain_errors():
        box = DeadLetterQueries.of(resilience_dir, application, name)
        (letter,) = box.find([letter_id])
        if as_json:
            click.echo(json.dumps({**letter, "state": box.state(letter)}, indent=2))
            return
        message, size = _message_text(letter, box), len(payload_of(letter))
        step = letter["step"] + (f" ({letter['place']})" if letter.get("place", "").startswith("step") else "")
        facts = {
            "id": letter["id"],
            "state": box.state(letter),
            "time": _time(letter),
            "pipeline": letter["pipeline"],
            "step": step,
            "key": letter.get("key"),
            "from": origin_in_words(letter),
            "replay of": letter.get("replay_of"),
            "payload": f"{counted(size, 'byte')}, {letter['encoding']}",
        }
        for fact, value in facts.items():
            if value:
                click.echo(f"{fact:<10} {value}")
        click.echo(f"\n{message}\n\n{letter['traceback']}")
        if reason := not_replayable(letter):
            click.echo(f"\nIt cannot be replayed: {reason}.")


def _message_text(letter: Letter, box: DeadLetterQueries) -> str:
    """Return the message as far as it can be read."""
    payload = payload_of(letter)
    match letter["encoding"]:
        case "pickle":
            with suppress(Exception):  # Its class may be gone, or not importable from here.
                apply_import_settings_of(box.home.path / "plan.json")
                return pprint.pformat(message_in(letter, Serializer()), width=100)
        case "bytes":
            with suppress(UnicodeDecodeError):
                return payload.decode()
            return _hex_lines(payload)
        case "repr":
            return payload.decode(errors="replace")
    return str(letter["message"])


def _hex_lines(data: bytes) -> str:
    r"""Return bytes as people read them, sixteen on a line.

    >>> print(_hex_lines(b"one \xff\x00"))
    0000  6f 6e 65 20 ff 00                                one ..
    """
    lines = []
    for start in range(0, min(len(data), _BYTES_SHOWN), 16):
        some = data[start : start + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in some)
        lines.append(f"{start:04x}  {some.hex(' '):<47}  {text}")
    if len(data) > _BYTES_SHOWN:
        lines.append(f"... and {counted(len(data) - _BYTES_SHOWN, 'more byte')}")
    return "\n".join(lines)


@command.command("replay")
@home_options
@filter_options
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All that have not been replayed yet.")
@click.option("--again", is_flag=True, help="Also those that have been replayed before.")
def replay(  # noqa: PLR0913 - as many as there are options
    *,
    resilience_dir: Path | None,
    application: str | None,
    name: str | None,
    ids: tuple[str, ...],
    everything: bool,
    again: bool,
    **wanted: Any,
) -> None:
    """Put the messages of dead letters back into the application, each at the step that failed, once.

    Do so when the program is mended. A running application takes them at once, and one that is stopped when it starts
    the next time. A message that fails again becomes a new dead letter.

    \b
    wallaroo dead-letters replay --resilience-dir state/ 3f9a1c 77b0e2
    wallaroo dead-letters replay --resilience-dir state/ --step "count words" --error KeyError
    wallaroo dead-letters replay --application "Word Count" --all
    """  # noqa: D301 - click wants the real character.
    chosen = Filter(**wanted)
    if bool(ids) + bool(everything or chosen) != 1:
        raise click.UsageError(
            "Name the dead letters to replay: IDs, or --all, or --pipeline, --step, --error, --since."
        )
    with plain_errors():
        box = DeadLetterQueries.of(resilience_dir, application, name)
        letters = _named(box, ids, again=again) if ids else _matching(box, chosen, again=again)
        if not letters:
            say("There is nothing to replay.")
            return
        box.replay(letters)
        when = "The application takes" if box.home.in_use() else "The application takes, when it starts the next time,"
        where = "the step that failed" if len(letters) == 1 else "the steps that failed"
        say(f"{when} {counted(len(letters), 'message')} back, at {where}.")


def _named(box: DeadLetterQueries, ids: tuple[str, ...], *, again: bool) -> list[Letter]:
    """Return the letters with these ids; refuse all if one of them cannot be replayed."""
    letters = box.find(ids)
    for letter in letters:
        if reason := not_replayable(letter):
            raise WallarooError(f"{letter['id']} cannot be replayed: {reason}.")
        if not again and box.state(letter) != WAITING:
            raise WallarooError(f"{letter['id']} has been replayed before. To do so again, say --again.")
    return letters


def _matching(box: DeadLetterQueries, wanted: Filter, *, again: bool) -> list[Letter]:
    """Return the letters that are meant and can be replayed; say how many others there are."""
    matching = [letter for letter in box.letters(wanted) if again or box.state(letter) == WAITING]
    letters = [letter for letter in matching if not_replayable(letter) is None]
    if left := len(matching) - len(letters):
        say(f"{counted(left, 'dead letter')} cannot be replayed; `wallaroo dead-letters show` says why.")
    return letters
