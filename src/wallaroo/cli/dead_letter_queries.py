"""The dead letters of an application and their states, selected by the options of a command."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from wallaroo.connectors.dead_letter_replay.source import ReplayQueue
from wallaroo.engine.delivery.dead_letter_file import delete_letters, read_letters
from wallaroo.engine.directory.home import Home, default_home
from wallaroo.engine.directory.marker import is_applications
from wallaroo.engine.transport.dead_letter_record import REPLAYABLE, Letter
from wallaroo.errors import WallarooError
from wallaroo.topology.model import REPLAYS

Command = TypeVar("Command", bound=Callable[..., Any])

WAITING, QUEUED, REPLAYED = "waiting", "queued", "replayed"
STATES = (WAITING, QUEUED, REPLAYED)

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def home_options(command: Command) -> Command:
    """Add the options that select the application."""
    for option in reversed(
        [
            click.option(
                "--resilience-dir",
                "-r",
                metavar="DIR",
                type=click.Path(path_type=Path, file_okay=False),
                help="The directory of the application, as it was given to machida.",
            ),
            click.option(
                "--application", "-a", metavar="NAME", help="The name of an application in its default directory."
            ),
            click.option("--name", "-n", metavar="NAME", help="The name of its run, if one was given to machida."),
        ]
    ):
        command = option(command)
    return command


def filter_options(command: Command) -> Command:
    """Add the options that filter dead letters."""
    for option in reversed(
        [
            click.option("--pipeline", metavar="NAME", help="Only those of this pipeline."),
            click.option(
                "--step", metavar="NAME", help="Only those of this step; it may be decoder, choose or encoder."
            ),
            click.option("--error", metavar="TEXT", help="Only those whose error contains this text."),
            click.option(
                "--since",
                metavar="TIME",
                callback=_time,
                help="Only those since then: 30s, 10m, 2h or 1d ago, or a time such as 2025-01-31T12:00.",
            ),
            click.option(
                "--before", metavar="TIME", callback=_time, help="Only those before then, in the same form as --since."
            ),
        ]
    ):
        command = option(command)
    return command


def _time(_context: click.Context, _parameter: click.Parameter, value: str | None) -> float | None:
    return None if value is None else parse_time(value)


def parse_time(text: str, now: float | None = None) -> float:
    """Return the time that `text` denotes, in seconds since 1970.

    >>> parse_time("10m", now=1000.0)
    400.0
    """
    if found := re.fullmatch(r"(\d+)([smhd])", text):
        return (time.time() if now is None else now) - int(found[1]) * _UNITS[found[2]]
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a time. Write 10m, 2h, 1d or 2025-01-31T12:00.") from error


@dataclass(frozen=True)
class Filter:
    """Selects dead letters."""

    pipeline: str | None = None
    step: str | None = None
    error: str | None = None
    since: float | None = None
    before: float | None = None

    def __bool__(self) -> bool:
        """Return whether any condition was given."""
        return self != Filter()

    def fits(self, letter: Letter) -> bool:
        """Return whether a letter matches."""
        return (
            self.pipeline in {None, letter["pipeline"]}
            and self.step in {None, letter["step"]}
            and (self.error is None or self.error.lower() in letter["error"].lower())
            and (self.since is None or letter["time"] >= self.since)
            and (self.before is None or letter["time"] < self.before)
        )


class DeadLetterQueries:
    """The dead letters in an application's directory."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._queue = ReplayQueue(home.replays, home.log_of(REPLAYS))
        self._replays = self._queue.replays()

    @classmethod
    def of(cls, resilience_dir: Path | None, application: str | None, name: str | None) -> DeadLetterQueries:
        """Return the dead letters of the application that the options select."""
        if resilience_dir is None and application is None:
            raise click.UsageError(
                "Specify the application: --resilience-dir DIR, as it was given to machida, or --application NAME "
                "for an application in its default directory."
            )
        path = resilience_dir or default_home(f"{application} {name}" if name else str(application), looking=True)
        home = Home(path)
        home.look()
        return cls(home)

    def state(self, letter: Letter) -> str:
        """Return whether a letter is waiting, queued for a replay, or replayed."""
        replay = self._replays.get(letter["id"])
        return WAITING if replay is None else REPLAYED if replay.taken else QUEUED

    def letters(self, wanted: Filter) -> Iterator[Letter]:
        """Yield the matching letters, oldest first."""
        return filter(wanted.fits, read_letters(self.home.dead_letters))

    def find(self, ids: Sequence[str]) -> list[Letter]:
        """Return the letters with these ids, or unambiguous prefixes of them, in this order."""
        found: dict[str, dict[str, Letter]] = {each: {} for each in ids}
        for letter in read_letters(self.home.dead_letters):
            for each in ids:
                if letter["id"].startswith(each):
                    found[each][letter["id"]] = letter
        for each, matching in found.items():
            if not matching:
                raise WallarooError(f"There is no dead letter {each!r} in {self.home.dead_letters}.")
            if len(matching) > 1:
                raise WallarooError(f"{each!r} could be any of these: {', '.join(matching)}. Write more of it.")
        # A letter may have been given twice.
        return list({letter["id"]: letter for matching in found.values() for letter in matching.values()}.values())

    def delete(self, ids: Iterable[str]) -> int:
        """Delete the letters with these ids, and return how many still existed; the application may be running."""
        return delete_letters(self.home.dead_letters, frozenset(ids))

    def replay(self, letters: Iterable[Letter]) -> None:
        """Queue letters for the application to process again."""
        if not is_applications(self.home.path):
            raise WallarooError(
                f"{self.home.path} is not the directory of an application that could process them again. Specify "
                "the one that was given to machida."
            )
        self._queue.add(letters)


def not_replayable(letter: Letter) -> str | None:
    """Return why a letter cannot be replayed, or None if it can."""
    if "place" not in letter:
        return "an earlier release has written it, without what a replay needs"
    if letter["encoding"] not in REPLAYABLE:
        return f"its message could not be packed, and only {_WHAT_IS_LEFT[letter['encoding']]} kept"
    return None


_WHAT_IS_LEFT = {"repr": "its text is", "packed": "the bytes of several messages together are"}
