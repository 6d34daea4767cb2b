"""Bounds what blocks have become, from the task that has made it until its block is delivered.

The ingress hands out blocks by the size of their messages. Steps may make hundreds of messages of one, so a task waits
for room here before it passes on what a block has become.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

STAGE_BYTES = 32 << 20
"""How much the tasks of one stage may have passed on of blocks that are not delivered."""


class OutputBudget:
    """Admits the output of tasks, in the order of blocks.

    Each stage has room of its own, so that the first stage, which is ahead, leaves some to those that follow. The first
    block that is not delivered is always admitted, however large: all others wait for it, and it waits for nothing.

    >>> window = OutputBudget(100)
    >>> for block in range(4):
    ...     window.ask(0, block, block, 60, lambda block=block: print("block", block))
    block 0
    >>> window.delivered(2)
    block 1
    block 2
    """

    def __init__(self, stage_bytes: int = STAGE_BYTES) -> None:
        self._stages: defaultdict[int, _Stage] = defaultdict(lambda: _Stage(stage_bytes))
        self._next = 0

    def begin(self, block: int) -> None:
        """Start over with a block; requests that still wait are dropped."""
        self._stages.clear()
        self._next = block

    def ask(self, stage: int, first: int, last: int, size: int, admit: Callable[[], None]) -> None:
        """Call `admit` when there is room for what the blocks from `first` to `last` have become in a task."""
        self._stages[stage].ask(first, last, size, admit)
        self._stages[stage].admit(self._next)

    def delivered(self, block: int) -> None:
        """Free the room of all blocks before `block`."""
        self._next = block
        for stage in self._stages.values():
            stage.free(block)
            stage.admit(block)


class _Stage:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._admitted: list[tuple[int, int]] = []
        """The last block and the size of what was admitted; the lowest block first."""
        self._waiting: list[tuple[int, int, int, int, Callable[[], None]]] = []
        self._numbers = count()

    def ask(self, first: int, last: int, size: int, admit: Callable[[], None]) -> None:
        heappush(self._waiting, (first, next(self._numbers), last, size, admit))

    def admit(self, undelivered: int) -> None:
        while self._waiting:
            first, _, last, size, admit = self._waiting[0]
            if first > undelivered and self._used + size > self._limit:
                return
            heappop(self._waiting)
            self._used += size
            heappush(self._admitted, (last, size))
            admit()

    def free(self, block: int) -> None:
        while self._admitted and self._admitted[0][0] < block:
            self._used -= heappop(self._admitted)[1]
