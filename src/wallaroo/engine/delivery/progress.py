"""Tells the ingress how far blocks are delivered and committed: it hands out, and keeps, no more than that needs.

And asks it for the end of an epoch, and how far a power failure could no longer take blocks.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from typing import Protocol

from wallaroo.connectors.base import StoppedError
from wallaroo.ingress.client import IngressClient, IngressUnavailableError


class Progress(Protocol):
    """Hears how far blocks have got."""

    def delivered(self, block: int) -> None:
        """Take note that the outputs of all blocks before `block` have been delivered."""

    def committed(self, block: int, ends: Mapping[str, int]) -> None:
        """Take note that all before `block`, and before these messages of each source, is committed."""

    def end_epoch_of(self, block: int) -> None:
        """Have the epoch end that a block is in, unless it has; does not wait for that."""

    def force(self) -> int:
        """Have all blocks, and their messages, forced to the disk; return the first that may not be there."""


class ReportedProgress:
    """Passes it on to the ingress, in a thread of its own; what has been overtaken is not told."""

    def __init__(self, client: IngressClient) -> None:
        self._client = client
        self._changed = threading.Condition()
        self._delivered: int | None = None
        self._committed: tuple[int, Mapping[str, int]] | None = None
        self._to_end: int | None = None
        """A block whose epoch is to end."""
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="wallaroo-progress", daemon=True)
        self._thread.start()

    def delivered(self, block: int) -> None:
        """Tell the ingress that blocks have been delivered."""
        with self._changed:
            self._delivered = block
            self._changed.notify()

    def committed(self, block: int, ends: Mapping[str, int]) -> None:
        """Tell the ingress what has been committed."""
        with self._changed:
            self._committed = block, dict(ends)
            self._changed.notify()

    def end_epoch_of(self, block: int) -> None:
        """Ask the ingress for it; of several blocks the furthest counts, for an epoch that has ended stays so."""
        with self._changed:
            self._to_end = block if self._to_end is None else max(block, self._to_end)
            self._changed.notify()

    def force(self) -> int:
        """Have the ingress do it, for as long as it takes to come back if it is away."""
        while not self._closed:
            with contextlib.suppress(IngressUnavailableError):
                return self._client.force()
        raise StoppedError

    def close(self) -> None:
        """Stop, without waiting for an ingress that does not answer."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._client.close()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._has_news())
                if self._closed:
                    return
                delivered, committed, to_end = self._delivered, self._committed, self._to_end
                self._delivered = self._committed = self._to_end = None
            with contextlib.suppress(Exception):  # An ingress that is started again asks for nothing old.
                if delivered is not None:
                    self._client.delivered(delivered)
                if committed is not None:
                    self._client.committed(*committed)
                if to_end is not None:
                    self._client.end_epoch(to_end)

    def _has_news(self) -> bool:
        return self._delivered is not None or self._committed is not None or self._to_end is not None
