"""Where a message for a state came from: determined afterwards, only for messages that fail.

Messages do not carry their position; that would cost something for each of them. But the log keeps the messages of a
block until it is committed, and user code is deterministic, as it has to be for a block that is recomputed. So the
first stage is rerun over the block, recording its results with their positions, until the message is found. If the
rerun produces a different message, no position is reported.
"""

from __future__ import annotations

import contextlib
import zlib
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from wallaroo.engine.plan import StepRoute
from wallaroo.engine.stages.crash_guard import CallGuard
from wallaroo.engine.stages.current_message import CurrentMessage, Origin
from wallaroo.engine.stages.first_stage import SourceLine
from wallaroo.engine.stages.outbox import USER_ERRORS, Outbox
from wallaroo.engine.transport.dead_letter_record import Letter, Place, serializer_bytes
from wallaroo.engine.transport.shuffle_format import Chunk
from wallaroo.ingress.block_sequence import SequencedBlock

if TYPE_CHECKING:
    from wallaroo.engine.stages.worker import Worker

Noted = tuple[dict[str, Any], Any]
"""An origin and its message."""


class ArrivedSlice:
    """The messages of one bucket in a chunk as they arrived, needed only for those that fail."""

    def __init__(self, worker: Worker, block: SequencedBlock, chunk: Chunk, keys: Iterable[Any], first: int) -> None:
        self._worker = worker
        self._block = block
        self._chunk = chunk
        self._at_hand = list(keys)
        self._first = first

    @cached_property
    def name(self) -> tuple[int, ...]:
        """Return the position of the messages in the order of the input, and a checksum that distinguishes reruns."""
        return (self._block.number, self._chunk.part, self._first, zlib.crc32(self._chunk.body))

    @cached_property
    def _messages(self) -> dict[Any, list[Any]]:
        loaded = list(self._worker.plan.serializer.load_messages(self._chunk.body).values())
        # In the same order; but a key such as NaN is not equal to another copy of itself.
        mine = loaded[self._first : self._first + len(self._at_hand)]
        return dict(zip(self._at_hand, mine, strict=True))

    def message(self, key: Any, index: int) -> Any:
        """Return a message as it was before any user code could change it."""
        return self._messages[key][index]

    def origin(self, key: Any, index: int) -> dict[str, Any]:
        """Return where a message came from."""
        worker, block = self._worker, self._block
        route = worker.plan.routes[self._chunk.route]
        assert isinstance(route, StepRoute)
        found = None
        # Behind another state only the block is known, except for letters replayed at that state.
        if worker.plan.is_first(route) or has_replays(worker, block):
            with contextlib.suppress(*USER_ERRORS):  # User code may not be deterministic.
                found = worker.retracing(block).origin_of_arrived(self._chunk, key, index, self._messages[key][index])
        return found or {"source": route.pipeline.name}


def has_replays(worker: Worker, block: SequencedBlock) -> bool:
    """Return whether a block contains replayed dead letters."""
    return any(worker.plan.brings_letters(worker.plan.sources[each.source]) for each in block.ranges)


class Retracing:
    """A rerun of the first stage over one block, as far as needed.

    It holds one part of the output at a time. Parts are mostly requested in order; for an earlier part the rerun starts
    again.
    """

    def __init__(self, worker: Worker, block: SequencedBlock) -> None:
        self._worker = worker
        self.block = block
        fatal = worker.fatal_first_calls.get(block.number)
        self._outbox = NotingOutbox(worker.plan, CallGuard(fatal) if fatal else None)
        self._lines: dict[str, SourceLine | None] = {}
        self._parts: Generator[None, None, None] = worker.run_ranges(block, self._outbox, self._line)
        self._part = -1
        self._travelled: defaultdict[tuple[int, Any], _Travelled] = defaultdict(_Travelled)

    def _begin_again(self) -> None:
        self.close()
        self._parts = self._worker.run_ranges(self.block, self._outbox, self._line)
        self._part = -1
        self._travelled.clear()

    def close(self) -> None:
        """Close the logs being read."""
        self._parts.close()

    def _line(self, source: str) -> SourceLine | None:
        if source not in self._lines:
            with self._outbox.capturing():
                self._lines[source] = self._worker.make_line(source, self._outbox)
        return self._lines[source]

    def _go_to(self, part: int) -> None:
        """Rerun up to one part of the output, if that part exists."""
        if part < self._part:
            self._begin_again()
        while self._part < part:
            self._outbox.clear()
            self._travelled.clear()
            self._part += 1
            next(self._parts, None)

    def origin_of_packed(self, route: int, part: int, key: Any, index: int) -> dict[str, Any] | None:
        """Return where the `index`-th message for a key came from, or None if that cannot be determined."""
        self._go_to(part)
        noted = self._outbox.noted(route, key)
        return noted[index][0] if index < len(noted) else None

    def origin_of_arrived(self, chunk: Chunk, key: Any, index: int, message: Any) -> dict[str, Any] | None:
        """Return the same for a message that arrived: others of its key may have failed before they were sent."""
        self._go_to(chunk.part)
        noted = self._outbox.noted(chunk.route, key)
        travelled = self._travelled[chunk.route, key]
        while len(travelled.noted) <= index:
            if travelled.tried == len(noted):
                return None
            at_hand = noted[travelled.tried]
            travelled.tried += 1
            with contextlib.suppress(*USER_ERRORS):
                self._outbox.try_travel(key, at_hand[1])
                travelled.noted.append(at_hand)
        origin, same = travelled.noted[index]
        return origin if self._is_same(same, message) else None

    def _is_same(self, one: Any, other: Any) -> bool:
        serializer = self._worker.plan.serializer
        return serializer_bytes(one, serializer) == serializer_bytes(other, serializer) or bool(one == other)


class _Travelled:
    """The messages for one key that could be sent, of those checked so far."""

    def __init__(self) -> None:
        self.tried = 0
        self.noted: list[Noted] = []


class _NotingList(list[Any]):
    """A list that records each message together with its origin."""

    def __init__(self, current: CurrentMessage) -> None:
        super().__init__()
        self._current = current

    def append(self, message: Any) -> None:
        super().append((self._current.origin(), message))


class NotingOutbox(Outbox):
    """An outbox for reruns: it records origins and sends nothing."""

    def keyed(self, route: StepRoute) -> defaultdict[Any, list[Any]]:
        """Return lists that record origins."""
        return self._keyed.setdefault(route.number, defaultdict(lambda: _NotingList(self.current)))

    def fail(  # noqa: PLR0913 - the signature of `Outbox`
        self,
        place: Place,
        message: Any,
        error: BaseException,
        key: Any = None,
        *,
        origin: Origin | None = None,
        encoding: str | None = None,
    ) -> None:
        """Ignore the failure: it was already reported in the first run."""

    def keep(self, letter: Letter) -> None:
        """Ignore the failure: it was already reported in the first run."""

    def noted(self, route: int, key: Any) -> list[Noted]:
        """Return the messages for a key; none if it cannot be determined which they are."""
        groups: Mapping[Any, list[Noted]] = self._keyed.get(route, {})
        if isinstance(key, str) and len(key) == 1 and ord(key) in groups:
            return []  # Some may have been regrouped from a numeric key to its letter, after the letter's own.
        return groups.get(key, [])
