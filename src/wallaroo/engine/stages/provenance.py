"""Where a message for a state came from: found out afterwards, only for messages that fail.

Messages do not carry their position; that would cost something for each of them. But the log keeps what a block has
until it is committed, and user code gives the same results for the same messages, as it has to for a block that is
computed again. So the first stage runs once more over the block, its results noted with their positions, until the
message is met. Where the program then gives another message, the position is not told.
"""

from __future__ import annotations

import contextlib
import zlib
from collections import defaultdict
from collections.abc import Generator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from wallaroo.engine.plan import StepRoute
from wallaroo.engine.stages.crash_guard import CallGuard
from wallaroo.engine.stages.current_message import CurrentMessage, Origin
from wallaroo.engine.stages.first_stage import SourceLine
from wallaroo.engine.stages.outbox import USER_ERRORS, Outbox
from wallaroo.engine.transport.chunks import Chunk
from wallaroo.engine.transport.dead_letter_record import Letter, Place, serializer_bytes
from wallaroo.ingress.sequence import SequencedBlock

if TYPE_CHECKING:
    from wallaroo.engine.stages.worker import Worker

Noted = tuple[dict[str, Any], Any]
"""An origin and its message."""


class ArrivedSlice:
    """The messages of one bucket in a chunk as they arrived, for those of them that fail."""

    def __init__(
        self, worker: Worker, block: SequencedBlock, chunk: Chunk, messages: dict[Any, list[Any]], first: int
    ) -> None:
        self._worker = worker
        self._block = block
        self._chunk = chunk
        self._at_hand = list(messages)
        self._first = first

    @cached_property
    def name(self) -> tuple[int, ...]:
        """Return the place of the messages in the order of the input, and what tells them from others there."""
        return (self._block.number, self._chunk.part, self._first, zlib.crc32(self._chunk.body))

    @cached_property
    def _messages(self) -> dict[Any, list[Any]]:
        loaded = list(self._worker.plan.serializer.load_messages(self._chunk.body).values())
        # In the same order; but a key such as NaN is not found by another copy of it.
        mine = loaded[self._first : self._first + len(self._at_hand)]
        return dict(zip(self._at_hand, mine, strict=True))

    def message(self, key: Any, index: int) -> Any:
        """Return a message as it was before any user code had it."""
        return self._messages[key][index]

    def origin(self, key: Any, index: int) -> dict[str, Any]:
        """Say where a message came from."""
        worker, block = self._worker, self._block
        route = worker.plan.routes[self._chunk.route]
        assert isinstance(route, StepRoute)
        found = None
        # Behind another state only the block is known, but for letters that are put back there.
        if worker.plan.is_first(route) or has_replays(worker, block):
            with contextlib.suppress(*USER_ERRORS):  # User code may not do the same again.
                found = worker.retracing(block).origin_of_arrived(self._chunk, key, index, self._messages[key][index])
        return found or {"source": route.pipeline.name}


def has_replays(worker: Worker, block: SequencedBlock) -> bool:
    """Tell whether a block has dead letters that are replayed."""
    return any(worker.plan.brings_letters(worker.plan.sources[each.source]) for each in block.ranges)


class Retracing:
    """The first stage once more over one block, as far as it takes.

    It has one part of the output at a time. Parts are asked for in their order, mostly; for one that has gone by it
    begins again.
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
        """Close the logs that it reads."""
        self._parts.close()

    def _line(self, source: str) -> SourceLine | None:
        if source not in self._lines:
            with self._outbox.capturing():
                self._lines[source] = self._worker.make_line(source, self._outbox)
        return self._lines[source]

    def _go_to(self, part: int) -> None:
        """Have the messages of one part of the output, if there is such a part."""
        if part < self._part:
            self._begin_again()
        while self._part < part:
            self._outbox.clear()
            self._travelled.clear()
            self._part += 1
            next(self._parts, None)

    def origin_of_packed(self, route: int, part: int, key: Any, index: int) -> dict[str, Any] | None:
        """Return where the `index`-th message for a key came from, None if that cannot be told."""
        self._go_to(part)
        noted = self._outbox.noted(route, key)
        return noted[index][0] if index < len(noted) else None

    def origin_of_arrived(self, chunk: Chunk, key: Any, index: int, message: Any) -> dict[str, Any] | None:
        """The same for a message that arrived: others of its key may have failed before they were sent."""
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
    """The messages for one key that could be sent, of those that were tried."""

    def __init__(self) -> None:
        self.tried = 0
        self.noted: list[Noted] = []


class _NotingList(list[Any]):
    """Takes a message together with where it came from."""

    def __init__(self, current: CurrentMessage) -> None:
        super().__init__()
        self._current = current

    def append(self, message: Any) -> None:
        super().append((self._current.origin(), message))


class NotingOutbox(Outbox):
    """An outbox from which nothing leaves."""

    def keyed(self, route: StepRoute) -> defaultdict[Any, list[Any]]:
        """Return lists that note origins."""
        return self._keyed.setdefault(route.number, defaultdict(lambda: _NotingList(self.current)))

    def fail(  # noqa: PLR0913 - as `Outbox` has it
        self,
        place: Place,
        message: Any,
        error: BaseException,
        key: Any = None,
        *,
        origin: Origin | None = None,
        encoding: str | None = None,
    ) -> None:
        """Ignore what fails: it did so before, and is told already."""

    def keep(self, letter: Letter) -> None:
        """Ignore what fails: it did so before, and is told already."""

    def noted(self, route: int, key: Any) -> list[Noted]:
        """Return the messages for a key; none where it cannot be told which they are."""
        groups: Mapping[Any, list[Noted]] = self._keyed.get(route, {})
        if isinstance(key, str) and len(key) == 1 and ord(key) in groups:
            return []  # Some may have been put to the letter of their number, behind its own.
        return groups.get(key, [])
