"""The contract of a sink: it is handed whole batches, one after the other, and returns when one is delivered."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Protocol

from wallaroo.connectors.batch import Batch


class StoppedError(Exception):
    """The application is being stopped; what was to be delivered will be delivered by its next run."""


class SinkConnection(Protocol):
    """Delivers the encoded messages of batches, in order."""

    name: str
    """Where it delivers to: known in the ledger and shown to people by this name."""

    def connect(self) -> None:
        """Look for the receiver ahead of the first batch, for as long as it takes."""

    def deliver(self, batch: Batch) -> None:
        """Deliver one batch; wait for the receiver as long as it takes, or raise StoppedError."""

    def close(self) -> None:
        """Let go of the connection after what was delivered has been handed over."""


Notice = Callable[[str], None]
"""Tells a person, in one line, what is going on."""


def never_failing(notice: Notice) -> Notice:
    """Return `notice` so that it never raises: nothing stops because nobody is there to read."""

    def tell(text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            notice(text)

    return tell
