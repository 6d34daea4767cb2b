"""A source with a log: appends what its intake receives, and holds the intake back while the log cannot accept more."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from typing import TYPE_CHECKING

from wallaroo.files import free_space
from wallaroo.ingress.log import LogWriter
from wallaroo.ingress.log.reader import LogReader
from wallaroo.ingress.source import Source, SourceStatus
from wallaroo.notices import QUIET_SECONDS, Condition
from wallaroo.sizes import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from wallaroo.connectors.base import IntakeContext, LoggedKind
    from wallaroo.ingress.block_sequence import Range
    from wallaroo.ingress.config import SourceEndpoint
    from wallaroo.ingress.source import OnAdded

SYNC_SECONDS = 1.0
"""How often a log is synced to disk: older messages survive a power failure."""

ROOM_LEFT = 32 << 20
"""How many bytes of free disk space a log leaves to the rest of the application."""

RETRY_SECONDS = 1.0
"""How often a failed write to a log is retried."""


class LoggedSource(Source):
    """Appends what its intake receives to a log, and applies back pressure to the intake.

    A log is a single lane. There are two reasons for back pressure: the log has reached its limit, or the disk is full
    or fails. In the second case messages that were already read wait in memory: nothing that left the sender's socket
    is lost.
    """

    _told_full = (
        "The log of {name!r} has reached its limit of {limit} (--max-log): its senders have to wait until the "
        "application has processed some of it."
    )
    _told_room = "The log of {name!r} has room again: its senders no longer have to wait."

    def __init__(
        self,
        kind: LoggedKind,
        endpoint: SourceEndpoint,
        context: IntakeContext,
        on_added: OnAdded,
        segment_bytes: int,
    ) -> None:
        super().__init__(endpoint, context, on_added)
        self._unforced = Condition(context.notice, quiet=QUIET_SECONDS)
        self._unwritten: list[list[bytes]] = []
        self._room = 0
        self._retry: asyncio.TimerHandle | None = None
        self._delivered = 0
        self._before_segment: Callable[[int], None] = lambda _end: None
        self._needed: Callable[[], int | None] = lambda: None
        self.intake = kind.intake(endpoint.config, endpoint.place, self, context)
        self._log = LogWriter(
            self.directory,
            segment_bytes=min(segment_bytes, self._limits.segment_bytes),
            before_segment=lambda end: self._before_segment(end),  # noqa: PLW0108 - it may be set later.
            needed=self._needed(),
        )
        for text in self._log.dropped:
            self._notice(text)
        self._known = endpoint.known.get(0, 0)
        # Before any sender can connect: after a power failure the log may end before what was already processed.
        self.advance(self._known)
        self._check_room()

    @property
    def end(self) -> int:
        """Return the index after the last message in the log."""
        return self._log.end

    def resume(self, ends: Mapping[int, int], size: int) -> Iterator[tuple[int, int, int]]:
        """Continue where the sequence ends, and return what is in the log after that."""
        index = max(ends.get(0, self.start), self._known)
        self.advance(index)
        return self._pieces_from(index, size)

    def _pieces_from(self, index: int, size: int) -> Iterator[tuple[int, int, int]]:
        log = LogReader(self.directory)
        while index < self.end:
            end = log.limit(index, size, self.end)
            yield index, end, sum(log.bytes_between(*present) for present in log.present(index, end))
            index = end

    @property
    def start(self) -> int:
        """Return the index of the first message that is not processed."""
        return self._log.committed

    @property
    def backlog_bytes(self) -> int:
        """Return how many bytes in the log are not processed yet."""
        return self._log.bytes_after(max(self._log.committed, self._delivered))

    def delivered(self, done: Range) -> None:
        """Record that the outputs of the messages up to the end of a range have been delivered."""
        self._delivered = max(self._delivered, done.end)

    @property
    def held_back(self) -> bool:
        """Return whether the log accepts no more messages for now."""
        return self._full or bool(self._unwritten)

    @property
    def has_written_all(self) -> bool:
        """Return whether everything that was received is in the log."""
        return not self._unwritten

    def status(self) -> SourceStatus:
        """Return the status of the source."""
        return {**super().status(), "start": self._log.start, "log_bytes": self._log.disk_bytes}

    def received(self, payloads: list[bytes]) -> None:
        """Append messages to the log."""
        if not payloads:
            return
        if self._unwritten:
            self._unwritten.append(payloads)
            return
        try:
            self._append(payloads)
        except OSError as error:
            self._unwritten.append(payloads)
            self.intake.hold()
            self._retry = asyncio.get_running_loop().call_later(RETRY_SECONDS, self._try_again)
            self._notice(
                f"The log of {self.name!r} in {self.directory} cannot be written: {error.strerror}. "
                f"Nothing is read from its senders until it can; free some space or repair the disk."
            )
        else:
            self._check_room()

    def commit(self, ends: Mapping[int, int]) -> None:
        """Record that the messages before the position of the log's lane are processed."""
        try:
            self._log.delete_before(ends.get(0, 0))
            self._check_room()
        except OSError as error:
            self._notice(f"Old messages of {self.name!r} could not be deleted: {error}.")

    def advance(self, index: int) -> None:
        """Make sure that no further message gets an index below `index`."""
        end = self._log.end
        if self._log.advance_to(index):
            self._notice(
                f"The log of {self.name!r} ended at message {end}, but messages up to {index} were known: "
                f"those between are lost, as after a power failure. It continues with message {index}."
            )

    def before_each_segment(self, keep: Callable[[int], None], needed: Callable[[], int | None]) -> None:
        """Have `keep` called with the log's end each time before a new segment is started."""
        self._before_segment, self._needed = keep, needed

    def sync(self) -> None:
        """Sync the log to disk."""
        self._room = sys.maxsize  # No more messages will arrive.
        try:
            self._write_waiting()
            self._log.sync()
        except OSError as error:
            self._notice(f"The log of {self.name!r} could not be written to the disk: {error}.")

    async def force(self) -> None:
        """Sync the log to disk, in a thread: senders do not wait for it."""
        if files := self._log.unsynced():
            await asyncio.to_thread(files.sync)

    async def keep_on_disk(self) -> None:
        """Sync the log to disk periodically."""
        while True:
            await asyncio.sleep(SYNC_SECONDS)
            try:
                await self.force()
            except OSError as error:
                self._unforced.begin(
                    f"The log of {self.name!r} could not be synced to the disk: {error.strerror}. It is retried; "
                    f"until then a power failure could lose what was received since."
                )
            else:
                self._unforced.end(f"The log of {self.name!r} is synced to the disk again.")

    def close(self) -> None:
        """Stop the intake, write what still waits in memory, if possible, and close the log."""
        super().close()
        if self._retry is not None:
            self._retry.cancel()
        self._unforced.close()
        self._room = sys.maxsize
        try:
            self._write_waiting()
            self._log.close()
        except OSError as error:
            lost = sum(map(len, self._unwritten))
            self._notice(
                f"The log of {self.name!r} could not be written at the end: {error}. "
                f"Received and lost: {plural(lost, 'message')}."
            )

    def _append(self, payloads: list[bytes]) -> None:
        self._leave_room()
        first = self._log.end
        end = self._log.append(payloads)
        size = sum(map(len, payloads))
        self._room -= size
        self._added(first, end, size)

    def _leave_room(self) -> None:
        """Refuse to fill the disk. The log is only shortened while the rest of the application can write commits."""
        if self._room <= 0:
            self._room = free_space(self.directory) - ROOM_LEFT
        if self._room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _check_room(self) -> None:
        """Throttle the senders if the log has reached its limit.

        The size on disk counts. Segments are deleted as a whole, so a log may stay above the limit with all of its
        messages processed; it can be deleted once the next segment has been started.
        """
        self._hold_at_limit(self._log.disk_bytes)

    def _write_waiting(self) -> None:
        while self._unwritten:
            self._append(self._unwritten[0])
            del self._unwritten[0]

    def _try_again(self) -> None:
        self._room = 0
        try:
            self._log.delete_processed()
            self._write_waiting()
        except OSError:
            self._retry = asyncio.get_running_loop().call_later(RETRY_SECONDS, self._try_again)
            return
        self._retry = None
        self._check_room()
        self._notice(f"The log of {self.name!r} can be written again.")
        self._resume()
