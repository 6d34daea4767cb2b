"""The dead letters of an application and their states, selected by the options of a command."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from wallaroo.cli.option_values import LETTER_STATES
from wallaroo.connectors.dead_letter_replay.source import ReplayQueue
from wallaroo.engine.delivery.dead_letter_file import delete_letters, read_letters
from wallaroo.engine.directory.home import Home, default_home
from wallaroo.engine.directory.trust import is_applications
from wallaroo.engine.transport.dead_letter_record import REPLAYABLE, Letter
from wallaroo.errors import WallarooError
from wallaroo.topology.model import REPLAYS

WAITING, QUEUED, REPLAYED = LETTER_STATES


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
        # The file of dead letters may have been copied to a folder of its own.
        if not is_applications(home.path) and not home.dead_letters.exists():
            raise WallarooError(
                f"{home.path} is not the directory of an application, and has no {home.dead_letters.name}. Specify "
                "the directory that was given to machida."
            )
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
