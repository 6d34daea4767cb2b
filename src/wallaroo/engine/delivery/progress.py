"""Tells the ingress how far blocks are delivered and committed: it hands out, and keeps, no more than that needs.

And learns from it how far a power failure could no longer take them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from typing import Protocol

from wallaroo.connectors.base import StoppedError
from wallaroo.ingress.client import IngressAwayError, IngressClient


class Progress(Protocol):
    """Hears how far blocks have got."""

    def delivered(self, block: int) -> None:
        """Take note that the outputs of all blocks before `block` have been delivered."""

    def committed(self, block: int, ends: Mapping[str, int]) -> None:
        """Take note that all before `block`, and before these messages of each source, is committed."""

    def force(self) -> int:
        """Have all blocks, and their messages, forced to the disk; return the first that may not be there."""


class ReportedProgress:
    """Passes it on to the ingress, in a thread of its own; what has been overtaken is not told."""

    def __init__(self, client: IngressClient) -> None:
        self._client = client
        self._changed = threading.Condition()
        self._delivered: int | None = None
        self._committed: tuple[int, Mapping[str, int]] | None = None
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

    def force(self) -> int:
        """Have the ingress do it, for as long as it takes to come back if it is away."""
        while not self._closed:
            with contextlib.suppress(IngressAwayError):
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
                self._changed.wait_for(lambda: self._closed or self._delivered is not None or self._committed)
                if self._closed:
                    return
                delivered, committed = self._delivered, self._committed
                self._delivered = self._committed = None
            with contextlib.suppress(Exception):  # An ingress that is started again asks for nothing old.
                if delivered is not None:
                    self._client.delivered(delivered)
                if committed is not None:
                    self._client.committed(*committed)
