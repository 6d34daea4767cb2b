"""Where a message for a state came from: found out afterwards, only for messages that fail.

Messages do not carry their position; that would cost something for each of them. But a log keeps what it has until the
batch is committed, and user code gives the same results for the same messages, as it has to for a batch that is
repeated. So the first stage runs once more over the stretch of the log that a chunk came from, its results noted
with their positions, until the message is met. Where the program then gives another message, the position is not told.
"""

from __future__ import annotations

import contextlib
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

from wallaroo.engine.plan import Plan, StepRoute
from wallaroo.engine.stages.first_stage import FirstStage, SourceLine
from wallaroo.engine.stages.outbox import USER_ERRORS, Outbox
from wallaroo.engine.stages.watch import Watch
from wallaroo.engine.transport.chunks import Chunk, Serializer
from wallaroo.engine.transport.letters import Letter, Place, serializer_bytes
from wallaroo.ingress.log_reader import LogReader

_FURTHEST_BYTES = 64 << 20
"""How much of a log is looked through; a task takes less."""

Noted = tuple[dict[str, Any], Any]
"""An origin and its message."""


class ArrivedChunk:
    """A chunk as it arrived at a state, for the messages of it that fail."""

    def __init__(
        self,
        chunk: Chunk,
        messages: dict[Any, list[Any]],
        serializer: Serializer,
        find: Callable[[Chunk, Any, int, Any], Any],
    ) -> None:
        self._chunk = chunk
        self._at_hand = messages
        self._serializer = serializer
        self._find = find

    @cached_property
    def name(self) -> tuple[int, ...]:
        """Return the chunk's place in the order of the input, and what tells it from another at the same place."""
        return (*self._chunk.order, zlib.crc32(self._chunk.body))

    @cached_property
    def _messages(self) -> dict[Any, list[Any]]:
        # In the same order; but a key such as NaN is not found by another copy of it.
        return dict(zip(self._at_hand, self._serializer.load_messages(self._chunk.body).values(), strict=True))

    def message(self, key: Any, index: int) -> Any:
        """Return a message as it was before any user code had it."""
        return self._messages[key][index]

    def origin(self, key: Any, index: int) -> dict[str, Any]:
        """Say where a message came from."""
        found: dict[str, Any] = self._find(self._chunk, key, index, self._messages[key][index])
        return found


class Retracing:
    """The first stage once more, from `start` in the log of a source, as far as it takes.

    It has one part of the output at a time. Parts are asked for in their order, mostly; for one that has gone by it
    begins again.
    """

    def __init__(
        self,
        plan: Plan,
        line_for: Callable[[Outbox], SourceLine],
        log: LogReader,
        start: int,
        watch: Watch | None = None,
    ) -> None:
        self._serializer = plan.serializer
        self._log = log
        self._start = start
        self._outbox = NotingOutbox(plan, watch)
        with self._outbox.capturing():
            self._stage = FirstStage(self._outbox, line_for(self._outbox))
        self._begin()

    def _begin(self) -> None:
        self._parts = _parts(self._stage, self._log, self._start)
        self._part = -1
        self._travelled: defaultdict[tuple[int, Any], _Travelled] = defaultdict(_Travelled)

    def _go_to(self, part: int) -> None:
        """Have the messages of one part of the output, if there is such a part."""
        if part < self._part:
            self._begin()
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
        packed, way = serializer_bytes(one, self._serializer)
        return (packed, way) == serializer_bytes(other, self._serializer) or bool(one == other)


def _parts(stage: FirstStage, log: LogReader, start: int) -> Iterator[None]:
    """Run the first stage part by part. Not a method: nobody but its user holds it, or the files that it has open."""
    for low, high in log.present(start, log.limit(start, _FURTHEST_BYTES)):
        for first, payloads in log.read(low, high):
            yield from stage.run(first, payloads)


class _Travelled:
    """The messages for one key that could be sent, of those that were tried."""

    def __init__(self) -> None:
        self.tried = 0
        self.noted: list[Noted] = []


class _NotingList(list[Any]):
    """Takes a message together with where it came from."""

    def __init__(self, outbox: Outbox) -> None:
        super().__init__()
        self._outbox = outbox

    def append(self, message: Any) -> None:
        super().append((self._outbox.origin(), message))


class NotingOutbox(Outbox):
    """An outbox from which nothing leaves."""

    def keyed(self, route: StepRoute) -> defaultdict[Any, list[Any]]:
        """Return lists that note origins."""
        return self._keyed.setdefault(route.number, defaultdict(lambda: _NotingList(self)))

    def fail(
        self, place: Place, message: Any, error: BaseException, key: Any = None, *, encoding: str | None = None
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
