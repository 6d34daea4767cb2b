"""Bounds the memory for messages that have not arrived completely.

A connection buffers the start of its message until the rest has arrived. For one connection this is bounded by the
largest message, but there may be thousands of connections. When all of them together exceed the limit, those with large
partial messages take turns: one is read until its message is complete, and the others are paused, so that TCP throttles
their senders. If each were read a little, all of them could get stuck with the memory full. Connections with small
messages are never paused.
"""

from __future__ import annotations

import asyncio
import select
from typing import TYPE_CHECKING, Protocol

from wallaroo.notices import QUIET_SECONDS, Condition
from wallaroo.sizes import readable_size

if TYPE_CHECKING:
    from collections.abc import Callable

SMALL_BYTES = 16 << 10
"""How much of an incomplete message a connection may always buffer."""

_MIN_READ_BYTES = 4 << 10
_TIMEOUT_SECONDS = 5.0
_PROGRESS_BYTES = 1 << 20


class Sender(Protocol):
    """The interface of a connection."""

    @property
    def pending(self) -> int:
        """Return the number of buffered bytes of its incomplete message."""

    @property
    def is_held(self) -> bool:
        """Return whether it is paused for any reason."""

    def fileno(self) -> int:
        """Return its file descriptor."""

    def hold(self, why: object) -> None:
        """Pause reading until `release` is called with the same reason."""

    def release(self, why: object) -> None:
        """Resume reading, unless it is paused for another reason."""

    def give_up(self, kind: str, reason: str) -> None:
        """Close it and report the reason."""


class PartialFrames:
    """The incomplete messages of all connections, and whose turn it is while they take too much memory."""

    def __init__(self, most: int, notice: Callable[[str], None]) -> None:
        self.total = 0
        self._most = most
        self._spell = Condition(notice, quiet=QUIET_SECONDS)
        self._turn: Sender | None = None
        # In order of arrival: a dict serves as an ordered set.
        self._waiting: dict[Sender, None] = {}
        self._progress = 0
        self._timer: asyncio.TimerHandle | None = None

    def room_for(self, sender: Sender, wanted: int) -> int:
        """Return how many of the `wanted` bytes to read: fewer as the memory fills up."""
        room = self._most - self.total
        if room >= wanted or sender is self._turn:
            return wanted
        return max(room, _MIN_READ_BYTES)

    def changed(self, sender: Sender, by: int) -> None:
        """Record that the incomplete message of `sender` has grown, or shrunk, `by` so many bytes."""
        self.total += by
        if self._turn is None:
            if self.total > self._most and sender.pending > SMALL_BYTES:
                self._begin(sender)
        elif self.total <= self._most:
            self._resume_all()
        elif sender is self._turn:
            self._progress += max(by, 0)
            if by < 0:
                self._pass_on()
        elif sender.pending > SMALL_BYTES:
            self._wait(sender)

    def forget(self, sender: Sender, pending: int) -> None:
        """Record that `sender` is closed, with `pending` bytes of an incomplete message."""
        self.total -= pending
        self._waiting.pop(sender, None)
        if self._turn is None:
            return
        if self.total <= self._most:
            self._resume_all()
        elif sender is self._turn:
            self._turn = None
            self._pass_on()

    def close(self) -> None:
        """Cancel the timers."""
        self._spell.close()
        if self._timer is not None:
            self._timer.cancel()

    def _begin(self, sender: Sender) -> None:
        self._spell.begin(
            f"Messages that have not been received completely use more than {readable_size(self._most)} of memory "
            f"(--max-unfinished): large ones are received one after the other until it is less."
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
        self._timer = asyncio.get_running_loop().call_later(_TIMEOUT_SECONDS, self._look_at_progress)

    def _pass_on(self) -> None:
        """Give the turn to the next one with data to read; one without may be stuck."""
        if self._turn is not None and self._turn.pending > SMALL_BYTES:
            self._wait(self._turn)
        self._turn = None
        if not self._waiting:
            # The total consists of many small messages, which are never paused.
            self._resume_all()
            return
        following = next(filter(_has_arrived, self._waiting), next(iter(self._waiting)))
        del self._waiting[following]
        self._give_turn(following)

    def _resume_all(self) -> None:
        self._turn = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, {}
        for sender in waiting:
            sender.release(self)
        self._spell.end("Messages that have not been received completely use less memory again: all senders are read.")

    def _look_at_progress(self) -> None:
        """Close the connection whose turn it is if others wait for it and it hardly sends anything."""
        sender = self._turn
        assert sender is not None
        if self._progress < _PROGRESS_BYTES and self._waiting and not sender.is_held:
            sender.give_up(
                "too slow while others waited",
                f": unfinished messages took more than {readable_size(self._most)} of memory (--max-unfinished), and "
                f"while others waited for its turn to end it sent {readable_size(self._progress)} in "
                f"{_TIMEOUT_SECONDS:.0f} seconds.",
            )
        else:
            self._give_turn(sender)


def _has_arrived(sender: Sender) -> bool:
    """Return whether there is data to read, or the end of the stream."""
    poll = select.poll()
    poll.register(sender.fileno(), select.POLLIN)
    return bool(poll.poll(0))
