"""A source whose messages stay in an external system: only positions, and the bytes between them, are tracked here."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING

from wallaroo.ingress.lanes import MAX_LANES, note_committed, read_committed
from wallaroo.ingress.log.format import DIRECTORY_MODE
from wallaroo.ingress.source import MESSAGE_BYTES, Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wallaroo.connectors.base import IntakeContext, ReplayableKind
    from wallaroo.ingress.block_sequence import Range
    from wallaroo.ingress.config import SourceEndpoint
    from wallaroo.ingress.source import OnAdded

_MAX_RANGE_BYTES = 1 << 30
_STEPS = 256
"""Into how many steps, at least, the limit is divided for counting bytes ahead of a position."""


class ReplayableSource(Source):
    """Sequences what its intake announces, and holds the intake back while too much of that is not processed.

    The ends of its lanes are recorded in the sequence of blocks. Its own folder has only the committed positions.
    """

    _told_full = (
        "What {name!r} has announced and the application has not processed has reached the limit of {limit} "
        "(--max-log): no more is taken from it until some of that is processed."
    )
    _told_room = "More is taken from {name!r} again."

    def __init__(
        self, kind: ReplayableKind, endpoint: SourceEndpoint, context: IntakeContext, on_added: OnAdded
    ) -> None:
        super().__init__(endpoint, context, on_added)
        self.intake = kind.intake(endpoint.config, endpoint.place, self, context)
        self.directory.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        self._max_lanes = MAX_LANES if kind.has_lanes else 1
        self._committed = _furthest(read_committed(self.directory), endpoint.known)
        self._ends = dict(self._committed)
        self._starts = dict(self._committed)
        """By lane, the position of the first message that is not processed."""
        step = self._limits.max_log // _STEPS
        self._uncommitted = _Ahead(step)
        self._undelivered = _Ahead(step)

    @property
    def start(self) -> int:
        """Return the sum of the positions of the first messages that are not processed."""
        return sum(self._starts.values())

    @property
    def end(self) -> int:
        """Return the sum of the positions after the last announced messages."""
        return sum(self._ends.values())

    @property
    def lanes(self) -> list[int]:
        """Return the lanes of which anything was ever announced, in order."""
        return sorted(self._ends)

    def end_of(self, lane: int = 0) -> int | None:
        """Return the position after the last announced message of a lane, None if there is none."""
        return self._ends.get(lane)

    def committed_of(self, lane: int = 0) -> int | None:
        """Return the position before which messages of a lane are no longer read, None if nothing is committed."""
        return self._committed.get(lane)

    @property
    def backlog_bytes(self) -> int:
        """Return how many bytes are announced and not processed yet."""
        return self._undelivered.bytes

    def announced(self, first: int, end: int, size: int, lane: int = 0) -> None:
        """Add messages to the sequence of the application."""
        if not 0 <= lane < self._max_lanes:
            raise ValueError(f"{self.name!r} cannot have a lane {lane}: its kind allows {self._max_lanes}, from 0 on")
        if not self._ends.get(lane, 0) <= first < end:
            where = f"lane {lane} of {self.name!r}"
            raise ValueError(f"{where} ends at {self._ends.get(lane, 0)}: {first} to {end} cannot come next")
        counted = size + MESSAGE_BYTES * (end - first)
        if size < 0 or counted > _MAX_RANGE_BYTES:
            raise ValueError(f"{counted} bytes at once are not a part of a block; at most {_MAX_RANGE_BYTES} are")
        self._count(lane, first, end, counted)
        self._added(first, end, size, lane)

    def sequenced(self, done: Range, size: int) -> None:
        """Record what an earlier process announced: it is in the sequence."""
        if done.end > self._ends.get(done.lane, 0):
            self._count(done.lane, done.first, done.end, size)

    def _count(self, lane: int, first: int, end: int, size: int) -> None:
        self._starts.setdefault(lane, first)
        self._ends[lane] = end
        self._uncommitted.add(lane, end, size)
        self._undelivered.add(lane, end, size)
        self._hold_at_limit(self._uncommitted.bytes)

    def resume(self, ends: Mapping[int, int], size: int) -> Iterator[tuple[int, int, int]]:  # noqa: ARG002
        """Continue where the sequence ends, or what is committed; there are no messages here."""
        self._ends = _furthest(self._ends, ends)
        self._starts = {**ends, **self._starts}
        return iter(())

    def delivered(self, done: Range) -> None:
        """Record that the outputs of the messages up to the end of a range have been delivered."""
        self._undelivered.advance(done.lane, done.end)

    def commit(self, ends: Mapping[int, int]) -> None:
        """Record that the messages before these positions, by lane, are processed."""
        news = {lane: end for lane, end in ends.items() if end > self._committed.get(lane, 0)}
        if not news:
            return
        self._committed.update(news)
        self._starts.update(news)
        for lane, end in news.items():
            self._uncommitted.advance(lane, end)
            self._undelivered.advance(lane, end)
        try:
            note_committed(self.directory, news)
        except OSError as error:
            self._notice(f"How far {self.name!r} is processed could not be recorded: {error}.")
        self._hold_at_limit(self._uncommitted.bytes)


def _furthest(some: Mapping[int, int], others: Mapping[int, int]) -> dict[int, int]:
    """Return the greater position of each lane.

    >>> _furthest({0: 5, 1: 7}, {1: 3, 0: 6, 2: 1})
    {0: 6, 1: 7, 2: 1}
    """
    return {lane: max(some.get(lane, 0), others.get(lane, 0)) for lane in {**some, **others}}


class _Ahead:
    """How many bytes lie ahead of an advancing position in each lane; counted in steps, to keep few entries.

    >>> ahead = _Ahead(step=10)
    >>> for lane, end, size in (0, 5, 4), (0, 9, 4), (1, 7, 1), (0, 20, 40):
    ...     ahead.add(lane, end, size)
    >>> ahead.advance(0, 9)
    >>> ahead.bytes
    41
    """

    def __init__(self, step: int) -> None:
        self.bytes = 0
        self._step = step
        self._lanes: defaultdict[int, deque[tuple[int, int]]] = defaultdict(deque)

    def add(self, lane: int, end: int, size: int) -> None:
        ranges = self._lanes[lane]
        if ranges and ranges[-1][1] + size <= self._step:
            ranges.append((end, ranges.pop()[1] + size))
        else:
            ranges.append((end, size))
        self.bytes += size

    def advance(self, lane: int, position: int) -> None:
        ranges = self._lanes[lane]
        while ranges and ranges[0][0] <= position:
            self.bytes -= ranges.popleft()[1]
