"""`wallaroo dead-letters`: lists, shows, replays and deletes messages that an application failed on."""

from __future__ import annotations

import json
import pprint
import sys
from collections import Counter, deque
from contextlib import suppress
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any

import click

from wallaroo.cli.dead_letter_queries import (
    WAITING,
    DeadLetterQueries,
    Filter,
    not_replayable,
)
from wallaroo.cli.option_values import LETTER_STATES
from wallaroo.cli.options import (
    LAST,
    delete_options,
    filter_options,
    home_options,
    list_options,
    replay_options,
    show_options,
)
from wallaroo.cli.screen import ends_with_reader, plain_errors, say
from wallaroo.cli.table import screen_width, table_lines, visible, wrapped
from wallaroo.engine.transport.dead_letter_record import Letter, message_in, origin_in_words, payload_of
from wallaroo.engine.transport.plan_file import apply_import_settings_of
from wallaroo.engine.transport.serializer import Serializer
from wallaroo.errors import WallarooError
from wallaroo.sizes import plural

_BYTES_SHOWN = 1024
_WIDEST = 100
_FACT_WIDTH = 11
_ALWAYS, _IF_THEY_FIT = ("id", "time", "step", "error"), ("state", "pipeline", "key", "from")
"""The columns of the list."""


@click.group(context_settings={"max_content_width": 110})
def command() -> None:
    """List, show, replay and delete messages that an application failed on.

    The application may be running or not. Each command needs its directory, or its name if it has the default
    directory.

    \b
    wallaroo dead-letters list --resilience-dir state/
    wallaroo dead-letters show --resilience-dir state/ 3f9a1c
    wallaroo dead-letters replay --resilience-dir state/ --step "count words"
    wallaroo dead-letters delete --resilience-dir state/ --before 30d
    """  # noqa: D301 - click wants the real character.


@command.command("list")
@home_options
@filter_options
@list_options
def list_letters(  # noqa: PLR0913 - one argument for each option
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

    A letter is waiting until it is replayed. Then it is queued until the application has taken it, and replayed from
    then on.

    On a terminal, the columns id, time, step and error are always there, with long texts on several lines; state,
    pipeline, key and position are there if they fit. For a source with partitions, the position is PARTITION:POSITION.
    Elsewhere each letter is one line with all columns. If the reading program ends early, as in list --json | head,
    the exit code is 141, as it is for other programs.

    \b
    wallaroo dead-letters list --resilience-dir state/
    wallaroo dead-letters list --application "Word Count" --step decoder --since 2h
    wallaroo dead-letters list --resilience-dir state/ --error KeyError --json
    """  # noqa: D301 - click wants the real character.
    with plain_errors(), ends_with_reader():
        box = DeadLetterQueries.of(resilience_dir, application, name)
        letters = (each for each in box.letters(Filter(**wanted)) if state in {None, box.state(each)})
        if as_json:
            for letter in letters if last is None else deque(letters, last):
                click.echo(json.dumps({**letter, "state": box.state(letter)}))
            return
        shown: deque[Letter] = deque(maxlen=last or LAST)
        number = 0
        for letter in letters:
            number += 1
            shown.append(letter)
        if not number:
            say("There are none.")
            return
        for line in table_lines([_cells(box, letter) for letter in shown], _ALWAYS, _IF_THEY_FIT):
            click.echo(line)
        if number > len(shown):
            say(f"These are the newest of {number:,}; --last shows more.")


def _cells(box: DeadLetterQueries, letter: Letter) -> dict[str, str]:
    return {
        "id": letter["id"],
        "time": _time(letter),
        "step": letter["step"],
        "error": letter["error"].partition("\n")[0],
        "state": box.state(letter),
        "pipeline": letter["pipeline"],
        "key": letter.get("key") or "",
        "from": _position(letter),
    }


def _time(letter: Letter) -> str:
    return f"{datetime.fromtimestamp(letter['time']).astimezone():%Y-%m-%d %H:%M:%S}"


def _position(letter: Letter) -> str:
    """Return the position of the message, after that of its partition if it has one; the range of possible ones.

    >>> _position({"position": 7}), _position({"partition": 2, "position": 7}), _position({"positions": [4, 9]})
    ('7', '2:7', '4-9')
    >>> _position({"partitions": [{"partition": 0, "positions": [4, 9]}, {"partition": 2, "positions": [3, 3]}]})
    '0:4-9, 2:3-3'
    """
    if "partitions" in letter:
        return ", ".join(_position(each) for each in letter["partitions"])
    partition = f"{letter['partition']}:" if "partition" in letter else ""
    if "position" in letter:
        return f"{partition}{letter['position']}"
    first, last = letter.get("positions", ("", ""))
    return f"{partition}{first}-{last}" if first != "" else ""


@command.command("show")
@home_options
@click.argument("letter_id", metavar="ID")
@show_options
def show(
    *, resilience_dir: Path | None, application: str | None, name: str | None, letter_id: str, as_json: bool
) -> None:
    """Show everything that is known about one dead letter.

    The first characters of its ID are enough if they are unique. To show the message as an object, the command may have
    to import modules of the application.

    \b
    wallaroo dead-letters show --resilience-dir state/ 3f9a1c
    """  # noqa: D301 - click wants the real character.
    sys.dont_write_bytecode = True  # Showing a letter must leave no files in the application's folder.
    with plain_errors(), ends_with_reader():
        box = DeadLetterQueries.of(resilience_dir, application, name)
        (letter,) = box.find([letter_id])
        if as_json:
            click.echo(json.dumps({**letter, "state": box.state(letter)}, indent=2))
            return
        message, size = _message_text(letter, box), len(payload_of(letter))
        facts = {
            "id": letter["id"],
            "state": box.state(letter),
            "time": _time(letter),
            "pipeline": letter["pipeline"],
            "step": _step(letter),
            "key": letter.get("key"),
            "from": origin_in_words(letter),
            "replay of": letter.get("replay_of"),
            "payload": f"{plural(size, 'byte')}, {letter['encoding']}",
        }
        for fact, value in facts.items():
            if value:
                _show_fact(fact, visible(value))
        click.echo(f"\n{visible(message)}\n\n{visible(letter['traceback'])}")
        if reason := not_replayable(letter):
            click.echo("\n" + _for_screen(f"It cannot be replayed: {reason}."))


def _step(letter: Letter) -> str:
    """Return the step that failed, and which one it is.

    >>> _step({"step": "clean", "place": "step 3", "path": {"before": ["split", "count"]}})
    'clean (step 3, after split, count)'
    >>> _step({"step": "encoder", "place": "encoder 1", "path": {"name": "alarms"}})
    'encoder (of the sink alarms)'
    """
    place, path = letter.get("place", ""), letter.get("path") or {}
    if place.startswith("encoder") and path:
        return f"{letter['step']} (of the sink {path['name'] or ', '.join(path['after'])})"
    if not place.startswith("step"):
        return str(letter["step"])
    before = f", after {', '.join(path['before'])}" if path.get("before") else ""
    return f"{letter['step']} ({place}{before})"


def _show_fact(fact: str, value: str) -> None:
    width = screen_width()
    lines = [value] if width is None else wrapped(value, width - _FACT_WIDTH)
    for name, line in zip_longest([fact], lines, fillvalue=""):
        click.echo(f"{name:<{_FACT_WIDTH}}{line}")


def _for_screen(text: str) -> str:
    """Return a sentence in lines that fit the screen, if the output is a terminal."""
    width = screen_width()
    return text if width is None else "\n".join(wrapped(text, width))


def _message_text(letter: Letter, box: DeadLetterQueries) -> str:
    """Return the message in readable form, as far as possible."""
    payload = payload_of(letter)
    match letter["encoding"]:
        case "pickle":
            with suppress(Exception):  # Its class may not exist any more, or not be importable from here.
                apply_import_settings_of(box.home.path / "plan.json")
                return pprint.pformat(message_in(letter, Serializer()), width=min(screen_width() or _WIDEST, _WIDEST))
        case "bytes":
            with suppress(UnicodeDecodeError):
                return payload.decode()
            return _hex_lines(payload)
        case "repr":
            return payload.decode(errors="replace")
    return str(letter["message"])


def _hex_lines(data: bytes) -> str:
    r"""Return a hex dump, sixteen bytes per line.

    >>> print(_hex_lines(b"one \xff\x00"))
    0000  6f 6e 65 20 ff 00                                one ..
    """
    lines = []
    for start in range(0, min(len(data), _BYTES_SHOWN), 16):
        some = data[start : start + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in some)
        lines.append(f"{start:04x}  {some.hex(' '):<47}  {text}")
    if len(data) > _BYTES_SHOWN:
        lines.append(f"... and {plural(len(data) - _BYTES_SHOWN, 'more byte')}")
    return "\n".join(lines)


@command.command("replay")
@home_options
@filter_options
@click.argument("ids", metavar="[ID]...", nargs=-1)
@replay_options
def replay(  # noqa: PLR0913 - one argument for each option
    *,
    resilience_dir: Path | None,
    application: str | None,
    name: str | None,
    ids: tuple[str, ...],
    everything: bool,
    again: bool,
    **wanted: Any,
) -> None:
    """Process the messages of dead letters again, each once, beginning at the step that failed.

    Use it once the program is fixed. A running application takes them immediately, and a stopped one at its next start.
    A message that fails again becomes a new dead letter. Give IDs, or --all, or any of --pipeline, --step, --error,
    --since and --before.

    \b
    wallaroo dead-letters replay --resilience-dir state/ 3f9a1c 77b0e2
    wallaroo dead-letters replay --resilience-dir state/ --step "count words" --error KeyError
    wallaroo dead-letters replay --application "Word Count" --all
    """  # noqa: D301 - click wants the real character.
    chosen = Filter(**wanted)
    if bool(ids) + bool(everything or chosen) != 1:
        raise click.UsageError(
            "Specify the dead letters to replay: IDs, or --all, or --pipeline, --step, --error, --since, --before."
        )
    with plain_errors():
        box = DeadLetterQueries.of(resilience_dir, application, name)
        letters = _named(box, ids, again=again) if ids else _matching(box, chosen, again=again)
        if not letters:
            say("There is nothing to replay.")
            return
        box.replay(letters)
        whom = "the running application" if box.home.in_use() else "the next start of the application"
        say(f"Queued {plural(len(letters), 'message')} for {whom}.")


@command.command("delete")
@home_options
@filter_options
@click.argument("ids", metavar="[ID]...", nargs=-1)
@delete_options
def delete(  # noqa: PLR0913 - one argument for each option
    *,
    resilience_dir: Path | None,
    application: str | None,
    name: str | None,
    ids: tuple[str, ...],
    state: str | None,
    everything: bool,
    yes: bool,
    **wanted: Any,
) -> None:
    """Delete dead letters, after asking.

    Give IDs, or --all, or any of --pipeline, --step, --error, --since, --before and --state. Letters that were written
    after the question was asked are kept. A letter that is queued for a replay is still replayed.

    The application may be running. The letters that stay are copied to a new file, which then replaces
    dead-letters.jsonl, so follow it with tail -F; the disk needs space for the copy. Meanwhile the file is locked, and
    the application waits for the lock before it appends, so nothing that it writes is lost. On a file system without
    locks the command refuses to work.

    \b
    wallaroo dead-letters delete --resilience-dir state/ 3f9a1c 77b0e2
    wallaroo dead-letters delete --resilience-dir state/ --step decoder --before 7d
    wallaroo dead-letters delete --resilience-dir state/ --state replayed --yes
    wallaroo dead-letters delete --application "Word Count" --all
    """  # noqa: D301 - click wants the real character.
    chosen = Filter(**wanted)
    if bool(ids) + bool(everything or chosen or state) != 1:
        raise click.UsageError(
            "Specify the dead letters to delete: IDs, or --all, or --pipeline, --step, --error, --since, --before, "
            "--state."
        )
    with plain_errors():
        box = DeadLetterQueries.of(resilience_dir, application, name)
        matching = box.find(ids) if ids else box.letters(chosen)
        states = {letter["id"]: box.state(letter) for letter in matching}
        doomed = [letter_id for letter_id, found in states.items() if state in {None, found}]
        if not doomed:
            say("There is nothing to delete.")
            return
        if not yes:
            number = Counter(states[letter_id] for letter_id in doomed)
            how_many = ", ".join(f"{number[each]:,} {each}" for each in LETTER_STATES if number[each])
            question = f"Delete {plural(len(doomed), 'dead letter')} ({how_many}) from {box.home.dead_letters}?"
            click.confirm(_for_screen(question), abort=True, err=True)
        say(f"{plural(box.delete(doomed), 'dead letter')} deleted.")


def _named(box: DeadLetterQueries, ids: tuple[str, ...], *, again: bool) -> list[Letter]:
    """Return the letters with these ids; refuse all of them if one cannot be replayed."""
    letters = box.find(ids)
    for letter in letters:
        if reason := not_replayable(letter):
            raise WallarooError(f"{letter['id']} cannot be replayed: {reason}.")
        if not again and box.state(letter) != WAITING:
            raise WallarooError(f"{letter['id']} has been replayed already. To replay it again, add --again.")
    return letters


def _matching(box: DeadLetterQueries, wanted: Filter, *, again: bool) -> list[Letter]:
    """Return the matching letters that can be replayed; report how many others there are."""
    matching = [letter for letter in box.letters(wanted) if again or box.state(letter) == WAITING]
    letters = [letter for letter in matching if not_replayable(letter) is None]
    if left := len(matching) - len(letters):
        say(f"{plural(left, 'dead letter')} cannot be replayed; `wallaroo dead-letters show` says why.")
    return letters
