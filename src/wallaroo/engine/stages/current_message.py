"""The message that the steps of a task are at, which is asked for only where one fails, or may be fatal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Origin = Callable[[], dict[str, Any]]
"""Says where a message came from, as a dead letter tells it."""


class CurrentMessage:
    """What is known of the message at hand.

    One object for the whole life of an outbox: generated loops and guards hold on to it, and whoever feeds the steps
    sets its attributes. Nothing is computed for a message before somebody asks.

    >>> current = CurrentMessage()
    >>> current.key, current.origin()
    (None, {})
    """

    __slots__ = ("key", "number", "origin", "source")

    def __init__(self) -> None:
        self.key: Any = None
        """Its key, for states that take the key that a message already has."""
        self.origin: Origin = dict
        """Says where it came from."""
        self.number: Callable[[], Any] = object
        """Says which of all messages it is: the same whenever its block is run."""
        self.source = ""
        """Where its numbers are counted; empty where they need no more to be told apart."""
