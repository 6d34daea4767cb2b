"""What is outside of the application: where its messages come from, and where its outputs go.

`tcp.py` has senders and a receiver on sockets, `kafka.py` a broker with a topic on either side.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from tests.system.harness import Machida

from .oracle import Sent, Verdict
from .schedule import Strike

Later = Callable[[float, Callable[[], None]], None]
"""Does something after so many seconds."""
Frozen = Callable[[], AbstractContextManager[None]]
"""Keeps the application from running for the time of a `with` block."""


class Connection(Protocol):
    """What one stream of messages is sent on, in order."""

    def send(self, messages: list[bytes], choose: random.Random) -> bool:
        """Send messages and end; return whether all of them are known to be accepted."""

    def die(self, messages: list[bytes], choose: random.Random) -> None:
        """Send some of the messages, and end as a dying sender does."""


class Outside(ABC):
    """The surroundings of one application."""

    lanes = 1
    """How many ways messages come in that may overtake each other."""

    @property
    @abstractmethod
    def sink(self) -> str:
        """Return the name under which the ledger has the sink."""

    @property
    @abstractmethod
    def arguments(self) -> list[str]:
        """Return the arguments that tell the application where to read and write."""

    @abstractmethod
    def connect(self, run: Machida, lane: int) -> Connection | None:
        """Return a connection to an application that is ready; None if none is accepted."""

    @abstractmethod
    def take_note(self, home: Path) -> None:
        """Look into the application's directory, while no application runs."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Return how many bytes have come out so far."""

    @abstractmethod
    def latest(self, size: int) -> bytes:
        """Return the last lines that have come out, about so many bytes of them."""

    @abstractmethod
    def catch_sending(self) -> None:
        """Arrange that `is_behind` can be noticed, until `let_go`."""

    @property
    @abstractmethod
    def is_behind(self) -> bool:
        """Return whether the application is in the middle of sending."""

    @abstractmethod
    def let_go(self) -> None:
        """Take back `catch_sending`."""

    @abstractmethod
    def strike(self, strike: Strike, later: Later, frozen: Frozen) -> bool:
        """Inject a fault outside of the application; return False if there is no target."""

    @abstractmethod
    def wait_for_the_end(self) -> None:
        """Wait until everything is here that an application which has ended had sent."""

    @abstractmethod
    def judge(self, sent: Mapping[str, Sent]) -> Verdict:
        """Judge what has come out."""

    @abstractmethod
    def clean_up(self) -> None:
        """End everything."""
