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
from functools import cached_property
from typing import TYPE_CHECKING, Any

from wallaroo.engine.plan import StepRoute
from wallaroo.engine.stages.origins import Noted, NotingOutbox
from wallaroo.engine.stages.outbox import USER_ERRORS
from wallaroo.engine.stages.watch import Watch
from wallaroo.engine.transport.letters import serializer_bytes
from wallaroo.engine.transport.shares import Chunk
from wallaroo.ingress.sequence import SequencedBlock
from wallaroo.topology.model import REPLAYS

if TYPE_CHECKING:
    from wallaroo.engine.stages.block_worker import BlockWorker


class ArrivedSlice:
    """The messages of one bucket in a chunk as they arrived, for those of them that fail."""

    def __init__(
        self, worker: BlockWorker, block: SequencedBlock, chunk: Chunk, messages: dict[Any, list[Any]], first: int
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
        plan = self._worker.plan
        route = plan.routes[self._chunk.route]
        assert isinstance(route, StepRoute)
        found = None
        # Behind another state, only the block is known.
        if plan.after(route.pipeline, 0) is route:
            with contextlib.suppress(*USER_ERRORS):  # The log may be out of reach, or user code not do the same again.
                retracing = self._worker.retracing(self._block)
                found = retracing.origin_of_arrived(self._chunk, key, index, self._messages[key][index])
        return found or {"source": route.pipeline.name, **positions_in(self._worker, self._block, route.pipeline.name)}


def positions_in(worker: BlockWorker, block: SequencedBlock, source: str) -> dict[str, Any]:
    """Return which messages of a source a block has; nothing where letters are replayed in it, which may be any."""
    names = worker.plan.sources
    ranges = [each for each in block.ranges if names[each.source] == source]
    if not ranges or any(names[each.source] == REPLAYS for each in block.ranges):
        return {}
    return {"positions": [min(each.first for each in ranges), max(each.end for each in ranges) - 1]}


class BlockRetracing:
    """The first stage once more, over one block, as far as it takes: many errors in a block cost it once.

    It has one part of the output at a time. Parts are asked for in their order, mostly; for one that has gone by it
    begins again.
    """

    def __init__(self, worker: BlockWorker, block: SequencedBlock) -> None:
        self._worker = worker
        self.block = block
        fatal = worker.fatal_first_calls.get(block.number)
        self._outbox = NotingOutbox(worker.plan, Watch(fatal) if fatal else None)
        with self._outbox.capturing():
            self._lines = _Lines(lambda name: worker.make_line(name, self._outbox))
        self._begin()

    def _begin(self) -> None:
        self._parts = self._worker.run_ranges(self.block, self._outbox, self._lines.__getitem__)
        self._part = -1
        self._travelled: defaultdict[tuple[int, Any], _Travelled] = defaultdict(_Travelled)

    def _noted(self, route: int, part: int, key: Any) -> list[Noted]:
        """Return the messages for a key in one part of the block's output, with where each came from."""
        if part < self._part:
            self._begin()
        while self._part < part:
            self._outbox.clear()
            self._travelled.clear()
            self._part += 1
            next(self._parts, None)
        return self._outbox.noted(route, key)

    def origin_of_packed(self, route: int, part: int, key: Any, index: int) -> dict[str, Any] | None:
        """Return where the `index`-th message for a key came from, None if that cannot be told."""
        noted = self._noted(route, part, key)
        return noted[index][0] if index < len(noted) else None

    def origin_of_arrived(self, chunk: Chunk, key: Any, index: int, message: Any) -> dict[str, Any] | None:
        """The same for a message that arrived: others of its key may have failed before they were sent."""
        noted = self._noted(chunk.route, chunk.part, key)
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


class _Lines(defaultdict[str, Any]):
    """Lines that are made when they are first needed."""

    def __init__(self, make: Any) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, name: str) -> Any:
        self[name] = made = self._make(name)
        return made
