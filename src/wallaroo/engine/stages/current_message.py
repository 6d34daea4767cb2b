"""The message that a task is processing, needed only when a step fails or a call may be fatal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Origin = Callable[[], dict[str, Any]]
"""Returns where a message came from, as recorded in a dead letter."""


class CurrentMessage:
    """What is known about the message being processed.

    An outbox has one such object for its whole life: generated loops and guards keep a reference, and the code that
    feeds the steps sets its attributes. Nothing is computed for a message until it is needed.

    >>> current = CurrentMessage()
    >>> current.key, current.origin()
    (None, {})
    """

    __slots__ = ("key", "lane", "number", "origin")

    def __init__(self) -> None:
        self.key: Any = None
        """Its key, for states that use the key a message already has."""
        self.origin: Origin = dict
        """Returns where it came from."""
        self.number: Callable[[], Any] = object
        """Returns its number among all messages: the same each time its block is run."""
        self.lane = ""
        """The source, and the lane of it, within which the number is unique; empty if the number is so by itself."""
