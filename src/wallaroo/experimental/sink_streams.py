"""What a sink script knows of the applications that send to it: how far their outputs are read and confirmed."""

from __future__ import annotations

from collections import deque
from typing import Any

from wallaroo.connectors.extension.channel import Channel
from wallaroo.connectors.extension.protocol import (
    BEGINNING,
    Part,
    Place,
    ProtocolError,
    checksum_after,
    pack_confirm,
)


class Stream:
    """The outputs of an application, and how far they have been read and confirmed, over all its connections."""

    def __init__(self) -> None:
        self.read = BEGINNING
        self.confirmed = BEGINNING

    def compare(self, part: Part) -> None:
        """Compare messages that come again with those that were read.

        An application that was restarted may compute a block in another order: with another number of workers, or
        several states. Then the first messages are not those that were read, and all of the block is read again.

        Raises:
            ProtocolError: They are others.
        """
        if _differs(part, self.confirmed):
            self.confirmed = Place(part.block, 0, 0)
        if _differs(part, self.read):
            self.read = Place(part.block, 0, 0)
            raise ProtocolError(
                f"it has computed block {part.block} again, in another order than that in which a part of it was read; "
                "all of it is read again"
            )

    def has(self, part: Part) -> int:
        """Return how many of the messages have been read."""
        if part.block != self.read.block:
            return len(part.payloads) if part.block < self.read.block else 0
        return min(max(self.read.messages - part.first, 0), len(part.payloads))


def _differs(part: Part, place: Place) -> bool:
    """Return whether messages are others than those of the same block that were read up to a place."""
    if part.block != place.block or part.total == place.messages:
        return False  # Blocks that were read as a whole have the same messages, in whatever order.
    if part.total < place.messages:
        return True
    count = place.messages - part.first
    return 0 <= count <= len(part.payloads) and _checksum(part.checksum, part.payloads[:count]) != place.checksum


def _checksum(before: int, messages: list[bytes]) -> int:
    return checksum_after(before, list(map(len, messages)), messages)


class Peer:
    """A connection from an application."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.descriptor = channel.fileno()
        self.stream = Stream()
        self.waiting: deque[Any] = deque()
        """What has come and is not looked at yet."""
        self.messages: deque[bytes] = deque()
        """The messages at hand, of one part of a block."""
        self._part: Part | None = None
        """That part."""
        self._counted = 0
        """How many of its messages `_checksum` includes."""
        self._checksum = 0
        self._received = BEGINNING.order
        """Where the last part ends."""
        self._total = 0
        """How many messages its block has."""
        self.told = BEGINNING.order
        self.told_at = 0.0

    def take(self, part: Part) -> None:
        """Put the messages at hand that have not been read."""
        self.read_to()
        self.stream.compare(part)
        self._received, self._total = (part.block, part.first + len(part.payloads)), part.total
        have = self.stream.has(part)
        self.messages.extend(part.payloads[have:])
        self._part, self._counted = part, have
        self._checksum = _checksum(part.checksum, part.payloads[:have])

    def read_to(self, but: int = 0) -> None:
        """Note how far the stream has been read, without the last message if `but` is 1."""
        if self._part is None:
            return
        block, _, first, _, payloads = self._part
        count = len(payloads) - len(self.messages) - but
        if count > self._counted:
            self._checksum = _checksum(self._checksum, payloads[self._counted : count])
            self._counted = count
            self.stream.read = Place(block, first + count, self._checksum)

    def forget(self) -> None:
        """Forget what is at hand: it comes again on another connection."""
        self.read_to()
        self._part = None
        self.messages.clear()

    def tell(self, now: float) -> None:
        """Send what is confirmed, if it has not been sent, and has come on this connection."""
        self.told_at = now
        confirmed = self.stream.confirmed.order
        if confirmed > self._received:
            # It was read from an earlier connection, and what came there comes again.
            is_whole = self._received[1] == self._total
            confirmed = self._received if is_whole else BEGINNING.order
        if confirmed > self.told:
            self.told = confirmed
            self.channel.send(pack_confirm(*confirmed))
