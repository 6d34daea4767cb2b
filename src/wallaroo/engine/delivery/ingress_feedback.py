"""Reports delivered and committed blocks to the ingress, which bounds by that what it hands out and retains.

It also requests the end of an epoch, and the durability of blocks.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from typing import Protocol

from wallaroo.connectors.base import StoppedError
from wallaroo.ingress.client import IngressClient, IngressUnavailableError
from wallaroo.ingress.lanes import Lane


class Progress(Protocol):
    """Receives the progress of blocks."""

    def delivered(self, block: int) -> None:
        """Record that the outputs of all blocks before `block` have been delivered."""

    def committed(self, block: int, ends: Mapping[Lane[str], int]) -> None:
        """Record that everything before `block`, and before these messages of each lane, is committed."""

    def end_epoch_of(self, block: int) -> None:
        """Request the end of the epoch of a block, unless it has ended; does not wait."""

    def force(self) -> int:
        """Have all blocks and their messages synced to disk; return the first block that may not be durable."""


class ReportedProgress:
    """Forwards progress to the ingress, in its own thread; outdated reports are skipped."""

    def __init__(self, client: IngressClient) -> None:
        self._client = client
        self._changed = threading.Condition()
        self._delivered: int | None = None
        self._committed: tuple[int, Mapping[Lane[str], int]] | None = None
        self._to_end: int | None = None
        """A block whose epoch is to end."""
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="wallaroo-progress", daemon=True)
        self._thread.start()

    def delivered(self, block: int) -> None:
        """Report delivered blocks to the ingress."""
        with self._changed:
            self._delivered = block
            self._changed.notify()

    def committed(self, block: int, ends: Mapping[Lane[str], int]) -> None:
        """Report a commit to the ingress."""
        with self._changed:
            self._committed = block, dict(ends)
            self._changed.notify()

    def end_epoch_of(self, block: int) -> None:
        """Request it from the ingress; of several blocks the last one counts, as an earlier epoch has ended already."""
        with self._changed:
            self._to_end = block if self._to_end is None else max(block, self._to_end)
            self._changed.notify()

    def force(self) -> int:
        """Have the ingress do it; retry while it is being restarted."""
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
            # A restarted ingress does not need earlier reports, and one that did not take the first may take the next.
            if delivered is not None:
                with contextlib.suppress(Exception):
                    self._client.delivered(delivered)
            if committed is not None:
                with contextlib.suppress(Exception):
                    self._client.committed(*committed)
            if to_end is not None:
                with contextlib.suppress(Exception):
                    self._client.end_epoch(to_end)

    def _has_news(self) -> bool:
        return self._delivered is not None or self._committed is not None or self._to_end is not None
