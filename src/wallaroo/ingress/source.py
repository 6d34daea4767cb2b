"""A source in the ingress: its intake, its status, and its back pressure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypedDict

from wallaroo.notices import QUIET_SECONDS, Condition
from wallaroo.sizes import readable_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from wallaroo.connectors.base import Intake, IntakeContext
    from wallaroo.ingress.block_sequence import Range
    from wallaroo.ingress.config import SourceEndpoint

    OnAdded = Callable[[str, int, int, int, int], None]
    """Called for all messages: the source's name, the first position, the one after the last, the size, the lane."""

MESSAGE_BYTES = 16
"""What a message counts in addition to its payload, where the bytes in flight are bounded."""


class SourceStatus(TypedDict):
    """The status of a source. The totals count from the start of the ingress process.

    Of a source with several lanes, `start` and `end` are the sums over its lanes.
    """

    connections: int
    start: int
    end: int
    backlog_bytes: int
    log_bytes: int
    total_messages: int
    total_bytes: int


class Source(ABC):
    """What all sources have in common, wherever their messages are stored: a `SourceSide` for the intake."""

    intake: Intake
    _told_full: ClassVar[str]
    """The notice when the limit is reached; it has a `name` and a `limit`."""
    _told_room: ClassVar[str]

    def __init__(self, endpoint: SourceEndpoint, context: IntakeContext, on_added: OnAdded) -> None:
        self.name = endpoint.name
        self.directory = Path(endpoint.log_directory)
        self._limits = context.limits
        self._notice = context.notice
        self._on_added = on_added
        self._fullness = Condition(context.notice, quiet=QUIET_SECONDS)
        self._full = False
        self._total_messages = 0
        self._total_bytes = 0

    @property
    @abstractmethod
    def start(self) -> int:
        """Return the position of the first message that is not processed; with lanes, the sum of these."""

    @property
    @abstractmethod
    def end(self) -> int:
        """Return the position after the last added message; with lanes, the sum of these."""

    @property
    @abstractmethod
    def backlog_bytes(self) -> int:
        """Return how many bytes are added and not processed yet."""

    @property
    def held_back(self) -> bool:
        """Return whether the intake has to pause."""
        return self._full

    @abstractmethod
    def resume(self, ends: Mapping[int, int], size: int) -> Iterator[tuple[int, int, int]]:
        """Continue where the sequence ends, which is given by lane: no further message gets a position before that.

        Return the messages stored here that are not in the sequence: ranges of about `size` bytes, each with its size.
        """

    @abstractmethod
    def delivered(self, done: Range) -> None:
        """Record that the outputs of the messages of a range, and of those before them, have been delivered."""

    @abstractmethod
    def commit(self, ends: Mapping[int, int]) -> None:
        """Record that the messages before these positions, by lane, are processed."""

    def status(self) -> SourceStatus:
        """Return the status of the source."""
        return SourceStatus(
            connections=self.intake.connections,
            start=self.start,
            end=self.end,
            backlog_bytes=self.backlog_bytes,
            log_bytes=0,
            total_messages=self._total_messages,
            total_bytes=self._total_bytes,
        )

    def sync(self) -> None:  # noqa: B027 - there may be nothing to sync.
        """Sync to disk; no more messages will be added."""

    async def force(self) -> None:  # noqa: B027
        """Sync to disk, in a thread: senders do not wait for it."""

    async def keep_on_disk(self) -> None:  # noqa: B027
        """Sync to disk periodically."""

    def close(self) -> None:
        """Stop the intake."""
        self.intake.close()
        self._fullness.close()

    def _added(self, first: int, end: int, size: int, lane: int = 0) -> None:
        self._total_messages += end - first
        self._total_bytes += size
        # Each message takes memory while it is in flight, however short it is.
        self._on_added(self.name, first, end, size + MESSAGE_BYTES * (end - first), lane)

    def _hold_at_limit(self, taken: int) -> None:
        """Pause the intake if `taken` exceeds the limit; resume it well below the limit, or when all is processed."""
        limit = self._limits.max_log
        if not self._full and taken > limit and self.start < self.end:
            self._full = True
            self.intake.hold()
            self._fullness.begin(self._told_full.format(name=self.name, limit=readable_size(limit)))
        elif self._full and (taken <= limit * 3 // 4 or self.start >= self.end):
            self._full = False
            self._fullness.end(self._told_room.format(name=self.name))
            self._resume()

    def _resume(self) -> None:
        if not self.held_back:
            self.intake.release()
