"""The contract of a sink: it is handed whole batches, one after the other, and returns when one is delivered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol


class StoppedError(Exception):
    """The application is being stopped; what was to be delivered will be delivered by its next run."""


class SinkConnection(Protocol):
    """Delivers the encoded messages of batches, in order."""

    name: str
    """Where it delivers to: known in the ledger and shown to people by this name."""

    def deliver(self, bodies: Sequence[bytes]) -> None:
        """Deliver one batch; wait for the receiver as long as it takes, or raise StoppedError."""

    def close(self) -> None:
        """Let go of the connection after what was delivered has been handed over."""


Notice = Callable[[str], None]
"""Tells a person, in one line, what is going on."""
