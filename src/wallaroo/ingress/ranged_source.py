"""A source whose messages stay in an external system: only positions, and the bytes between them, are tracked here."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from wallaroo.ingress.log.committed import note_committed, read_committed
from wallaroo.ingress.log.format import DIRECTORY_MODE
from wallaroo.ingress.source import MESSAGE_BYTES, Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from wallaroo.connectors.base import IntakeContext, RangedKind
    from wallaroo.ingress.config import SourceEndpoint

_MAX_RANGE_BYTES = 1 << 30
_STEPS = 256
"""Into how many steps, at least, the limit is divided for counting bytes ahead of a position."""


class RangedSource(Source):
    """Sequences what its intake announces, and holds the intake back while too much of that is not processed.

    Its end is recorded in the sequence of blocks. Its own folder has only the committed position.
    """

    _told_full = (
        "What {name!r} has announced and the application has not processed has reached the limit of {limit} "
        "(--max-log): no more is taken from it until some of that is processed."
    )
    _told_room = "More is taken from {name!r} again."

    def __init__(
        self,
        kind: RangedKind,
        endpoint: SourceEndpoint,
        context: IntakeContext,
        on_added: Callable[[str, int, int, int], None],
    ) -> None:
        super().__init__(endpoint, context, on_added)
        self.intake = kind.intake(endpoint.config, endpoint.place, self, context)
        self.directory.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        self._end = max(read_committed(self.directory), endpoint.known)
        step = self._limits.max_log // _STEPS
        self._uncommitted = _Ahead(self._end, step)
        self._undelivered = _Ahead(self._end, step)

    @property
    def start(self) -> int:
        """Return the position of the first message that is not processed."""
        return self._uncommitted.position

    @property
    def committed(self) -> int:
        """Return the position before which messages are no longer read."""
        return self._uncommitted.position

    @property
    def end(self) -> int:
        """Return the position after the last announced message."""
        return self._end

    @property
    def backlog_bytes(self) -> int:
        """Return how many bytes are announced and not processed yet."""
        return self._undelivered.bytes

    def announced(self, first: int, end: int, size: int) -> None:
        """Add messages to the sequence of the application."""
        if not self._end <= first < end:
            raise ValueError(f"{self.name!r} ends at {self._end}: {first} to {end} cannot come next")
        if not 0 <= size <= _MAX_RANGE_BYTES:
            raise ValueError(f"{size} bytes at once are not a part of a block; at most {_MAX_RANGE_BYTES} are")
        self._count(end, size + MESSAGE_BYTES * (end - first))
        self._added(first, end, size)

    def sequenced(self, end: int, size: int) -> None:
        """Record what an earlier process announced: it is in the sequence, up to `end`."""
        if end > self._end:
            self._count(end, size)

    def _count(self, end: int, size: int) -> None:
        self._end = end
        self._uncommitted.add(end, size)
        self._undelivered.add(end, size)
        self._hold_at_limit(self._uncommitted.bytes)

    def advance(self, index: int) -> None:
        """Make sure that no further message gets a position below `index`."""
        self._end = max(self._end, index)

    def delivered(self, index: int) -> None:
        """Record that the outputs of the messages before `index` have been delivered."""
        self._undelivered.advance(index)

    def commit(self, index: int) -> None:
        """Record that the messages before `index` are processed."""
        if index <= self.committed:
            return
        self._uncommitted.advance(index)
        self._undelivered.advance(index)
        try:
            note_committed(self.directory, index)
        except OSError as error:
            self._notice(f"How far {self.name!r} is processed could not be recorded: {error}.")
        self._hold_at_limit(self._uncommitted.bytes)


class _Ahead:
    """How many bytes lie ahead of an advancing position; counted in steps, to keep few entries.

    >>> ahead = _Ahead(0, step=10)
    >>> for end, size in (5, 4), (9, 4), (20, 40):
    ...     ahead.add(end, size)
    >>> ahead.advance(9)
    >>> ahead.bytes
    40
    """

    def __init__(self, position: int, step: int) -> None:
        self.position = position
        self.bytes = 0
        self._step = step
        self._ranges: deque[tuple[int, int]] = deque()

    def add(self, end: int, size: int) -> None:
        if self._ranges and self._ranges[-1][1] + size <= self._step:
            self._ranges.append((end, self._ranges.pop()[1] + size))
        else:
            self._ranges.append((end, size))
        self.bytes += size

    def advance(self, position: int) -> None:
        self.position = max(self.position, position)
        while self._ranges and self._ranges[0][0] <= self.position:
            self.bytes -= self._ranges.popleft()[1]
