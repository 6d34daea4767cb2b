"""How a run of the benchmark goes, and what it says while it goes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from rich.console import Console

T = TypeVar("T")

_TINY_SECONDS = 3
_TINY_EVENTS = 80_000


@dataclass(frozen=True)
class Setting:
    """What the parts of the benchmark are given."""

    quick: bool
    rounds: int
    tiny: bool = False
    """Whether it is only to be seen that everything works; the figures mean nothing. Such a run is quick as well."""
    events: int | None = None
    """How many events a throughput is measured with, where it is not to be the usual number."""
    screen: Console = field(default_factory=lambda: Console(stderr=True, highlight=False))
    began: float = field(default_factory=time.monotonic)

    def pick(self, quick: T, full: T) -> T:
        """Return the first in a quick run, the second otherwise."""
        return quick if self.quick else full

    def seconds(self, quick: int, full: int) -> int:
        """Return how long a load lasts."""
        return _TINY_SECONDS if self.tiny else self.pick(quick, full)

    def number_of_events(self, quick: int, full: int) -> int:
        """Return how many events a throughput is measured with."""
        return self.events or (_TINY_EVENTS if self.tiny else self.pick(quick, full))

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Show what is being done, as long as it is."""
        with self.screen.status(what):
            yield

    def say(self, what: str) -> None:
        """Show what has been done."""
        minutes, seconds = divmod(int(time.monotonic() - self.began), 60)
        self.screen.print(f"[dim]{minutes:3d}:{seconds:02d}[/dim]  {what}", soft_wrap=True)
