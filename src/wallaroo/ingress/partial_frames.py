"""Bounds the memory that messages take which have not come completely yet.

A connection keeps the beginning of its message until the rest has come. One alone is bounded by the largest message,
but there may be thousands. When all together take more than their limit, those with more than a little of a message
take turns: one is read until its message is complete, and the others wait, TCP holding their senders back. Had each
read on a little, all of them could get stuck half-way with the memory full. Connections whose messages are small
never wait.
"""

from __future__ import annotations

import asyncio
import select
from typing import TYPE_CHECKING, Protocol

from wallaroo.notices import DebouncedNotice
from wallaroo.sizes import readable_size

if TYPE_CHECKING:
    from collections.abc import Callable

SMALL_BYTES = 16 << 10
"""What a connection may always keep of an unfinished message."""

_LEAST_READ_BYTES = 4 << 10
_PATIENCE_SECONDS = 5.0
_PROGRESS_BYTES = 1 << 20


class Sender(Protocol):
    """What is needed of a connection."""

    @property
    def pending(self) -> int:
        """Return the number of bytes of its unfinished message."""

    @property
    def is_held(self) -> bool:
        """Return whether anybody keeps it from being read."""

    def fileno(self) -> int:
        """Return its file descriptor."""

    def hold(self, why: object) -> None:
        """Do not read it until `why` is no reason any more."""

    def release(self, why: object) -> None:
        """Read it again, unless there is another reason not to."""

    def give_up(self, kind: str, reason: str) -> None:
        """Close it and tell the reason."""


class PartialFrames:
    """The unfinished messages of all connections, and whose turn it is while they take too much memory."""

    def __init__(self, most: int, notice: Callable[[str], None]) -> None:
        self.total = 0
        self._most = most
        self._spell = DebouncedNotice(notice)
        self._turn: Sender | None = None
        # In the order in which they came; a dict is a set that keeps it.
        self._waiting: dict[Sender, None] = {}
        self._progress = 0
        self._timer: asyncio.TimerHandle | None = None

    def room_for(self, sender: Sender, wanted: int) -> int:
        """Return how much to read of the `wanted` bytes: ever less as the memory fills up."""
        room = self._most - self.total
        if room >= wanted or sender is self._turn:
            return wanted
        return max(room, _LEAST_READ_BYTES)

    def changed(self, sender: Sender, by: int) -> None:
        """Take note that `sender` has so many bytes more, or fewer, of an unfinished message than before."""
        self.total += by
        if self._turn is None:
            if self.total > self._most and sender.pending > SMALL_BYTES:
                self._begin(sender)
        elif self.total <= self._most:
            self._all_go_on()
        elif sender is self._turn:
            self._progress += max(by, 0)
            if by < 0:
                self._pass_on()
        elif sender.pending > SMALL_BYTES:
            self._wait(sender)

    def forget(self, sender: Sender, pending: int) -> None:
        """Take note that `sender` is closed, with so many bytes of an unfinished message."""
        self.total -= pending
        self._waiting.pop(sender, None)
        if self._turn is None:
            return
        if self.total <= self._most:
            self._all_go_on()
        elif sender is self._turn:
            self._turn = None
            self._pass_on()

    def close(self) -> None:
        """Let go of the timers."""
        self._spell.close()
        if self._timer is not None:
            self._timer.cancel()

    def _begin(self, sender: Sender) -> None:
        self._spell.begin(
            f"Messages that have not come completely take more than {readable_size(self._most)} of memory "
            f"(--max-unfinished): large ones are taken one after the other until that is less."
        )
        self._give_turn(sender)

    def _wait(self, sender: Sender) -> None:
        self._waiting[sender] = None
        sender.hold(self)

    def _give_turn(self, sender: Sender) -> None:
        self._turn = sender
        self._progress = 0
        sender.release(self)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(_PATIENCE_SECONDS, self._look_at_progress)

    def _pass_on(self) -> None:
        """Give the turn to the next one that has something to be read; one that has nothing may be stuck."""
        if self._turn is not None and self._turn.pending > SMALL_BYTES:
            self._wait(self._turn)
        self._turn = None
        if not self._waiting:
            # Many small ones make up the total, which nobody has to wait for.
            self._all_go_on()
            return
        following = next(filter(_has_arrived, self._waiting), next(iter(self._waiting)))
        del self._waiting[following]
        self._give_turn(following)

    def _all_go_on(self) -> None:
        self._turn = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, {}
        for sender in waiting:
            sender.release(self)
        self._spell.end("Messages that have not come completely take less memory again: all senders are read.")

    def _look_at_progress(self) -> None:
        """Close the connection whose turn it is if it keeps others waiting and hardly sends anything."""
        sender = self._turn
        assert sender is not None
        if self._progress < _PROGRESS_BYTES and self._waiting and not sender.is_held:
            sender.give_up(
                "too slow while others waited",
                f": unfinished messages took more than {readable_size(self._most)} of memory (--max-unfinished), and "
                f"while others waited for its turn to end it sent {readable_size(self._progress)} in "
                f"{_PATIENCE_SECONDS:.0f} seconds.",
            )
        else:
            self._give_turn(sender)


def _has_arrived(sender: Sender) -> bool:
    """Tell whether there is something to be read, if only the end of the connection."""
    poll = select.poll()
    poll.register(sender.fileno(), select.POLLIN)
    return bool(poll.poll(0))
