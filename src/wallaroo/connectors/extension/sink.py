"""The half of an extension's sink that runs in the driver: sends blocks to a script, which confirms its messages."""

from __future__ import annotations

import contextlib
import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from wallaroo.addresses import Address
from wallaroo.backoff import Backoff
from wallaroo.connectors.base import StoppedError
from wallaroo.connectors.extension.channel import Bell, Channel
from wallaroo.connectors.extension.protocol import (
    BEGINNING,
    BESIDE_MESSAGE,
    CONFIRM,
    FRAME_BYTES,
    Hello,
    Place,
    ProtocolError,
    checksum_after,
    hello,
    pack_part,
    unpack_confirm,
)
from wallaroo.connectors.tcp.confirmed_sink import stream_id
from wallaroo.connectors.tcp.sockets import dial
from wallaroo.notices import REPORT_AGAIN_SECONDS, Condition
from wallaroo.sizes import plural

if TYPE_CHECKING:
    from wallaroo.connectors.base import SinkContext
    from wallaroo.connectors.extension.protocol import Frame
    from wallaroo.connectors.output_block import Body, OutputBlock

_FIRST_RETRY_SECONDS = 0.1
_LONGEST_RETRY_SECONDS = 2.0
_DIAL_SECONDS = 10.0
_SILENT_SECONDS = 10.0
_POLL_SECONDS = 0.5
_STOPPING_TIMEOUT_SECONDS = 5.0
_LAST_SECONDS = 15.0
_PART_MESSAGES = 20_000


class ExtensionSink:
    """Sends to a script that listens at (host, port).

    Blocks are sent as they come, and count as delivered when the script has confirmed all their messages. When the
    connection breaks, what is not confirmed is sent again, to whichever script then listens. A block is on the disk
    before it is sent, so its number never means another one.
    """

    def __init__(self, host: str, port: int, context: SinkContext) -> None:
        self.name = f"extension://{Address(host, port)}"
        self._address = (host, port)
        self._where = f"the script at {Address(host, port)}"
        self._context = context
        self._stream = stream_id(context.application, self.name).hex()
        self._missing = Condition(context.notice, interval=REPORT_AGAIN_SECONDS)
        self._silent = Condition(context.notice, interval=REPORT_AGAIN_SECONDS)
        self._bell = Bell()
        self._changed = threading.Condition()
        # Guarded by the lock; only the thread takes blocks out.
        self._blocks: deque[_Block] = deque()
        """Those that are not delivered, in order."""
        self._is_closing = False
        self._thread: threading.Thread | None = None
        self._sent = 0
        """How many of the blocks have been sent on this connection."""
        self._sent_to = BEGINNING.order
        """Up to where outputs have been sent on this connection."""
        self._place = BEGINNING
        """What the script has confirmed."""
        self._has_compared = False
        """Whether that is of the block as it is here: an application that was restarted may have computed another."""
        self._progress_at = time.monotonic()

    def connect(self) -> None:
        """Start connecting, and sending what comes."""
        with self._changed:
            if self._thread is None and not self._is_closing:
                self._thread = threading.Thread(target=self._run, name="wallaroo-extension-sink", daemon=True)
                self._thread.start()

    def deliver(self, block: OutputBlock) -> None:
        """Take one block, to be sent at once."""
        self.connect()
        with self._changed:
            if not self._blocks:
                self._progress_at = time.monotonic()
            self._blocks.append(_Block(block))
            self._changed.notify()
        self._bell.ring()

    def close(self) -> None:
        """Wait for the script to confirm what it has been sent, unless it makes no progress, and disconnect."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._bell.ring()
        if self._thread is not None:
            self._thread.join(_LAST_SECONDS)
            if self._thread.is_alive():
                return
        self._bell.close()

    def _run(self) -> None:
        retries = Backoff(_FIRST_RETRY_SECONDS, longest=_LONGEST_RETRY_SECONDS, jitter=0.3)
        try:
            while not self._is_done:
                try:
                    with Channel(dial(self._address, _DIAL_SECONDS), BESIDE_MESSAGE) as channel:
                        self._greet(channel)
                        retries.reset()
                        self._missing.end(f"Connected to {self._where}.")
                        try:
                            self._serve(channel)
                        except OSError:
                            self._take_last(channel)
                            raise
                except (OSError, ProtocolError) as error:
                    self._missing.begin(
                        f"Waiting for {self._where} ({_reason(error)}); retrying until it can be sent outputs."
                    )
                    self._give_up_if_stopped()
                    self._bell.wait(retries.next())
        except Exception as error:  # noqa: BLE001 - the egress raises it in its thread
            self._fail(error)

    @property
    def _is_done(self) -> bool:
        return self._is_closing and not self._blocks

    def _fail(self, error: Exception) -> None:
        """Report an error for the first block that is not delivered, also if it is still to come."""
        with self._changed:
            self._changed.wait_for(lambda: self._blocks or self._is_closing)
            if self._blocks:
                self._blocks[0].block.failed(error)

    def _give_up_if_stopped(self) -> None:
        """Stop waiting for a script that makes no progress, once the application is being stopped."""
        is_ending = self._is_closing or self._context.stopping.is_set()
        if is_ending and time.monotonic() - self._progress_at > _STOPPING_TIMEOUT_SECONDS:
            raise StoppedError

    def _greet(self, channel: Channel) -> None:
        """Find out what the script has confirmed."""
        channel.send(hello("application", stream=self._stream))
        asked_at = time.monotonic()
        came: list[Hello | Frame] = []
        while not came:
            came = channel.exchange(self._bell, _POLL_SECONDS)
            self._give_up_if_stopped()
            if self._is_done:
                raise StoppedError
            if not came and time.monotonic() - asked_at > _SILENT_SECONDS:
                self._silent.begin(
                    f"{self._where.capitalize()} has accepted a connection {_SILENT_SECONDS:g} seconds ago and said "
                    "nothing: is it a SinkExtension that is being read?"
                )
        self._silent.end(f"{self._where.capitalize()} answers.")
        first, *others = came
        assert isinstance(first, Hello)
        first.check_version(self._where)
        confirmed = _place_of(first.says.get("confirmed"))
        if first.says.get("role") != "sink" or confirmed is None:
            raise ProtocolError("its hello is that of something else")
        self._sent = 0
        self._sent_to = BEGINNING.order
        self._place, self._has_compared = confirmed, False
        self._take(others)

    def _serve(self, channel: Channel) -> None:
        """Send blocks, and take confirmations, until everything is confirmed and the sink is closed."""
        parts: Iterator[tuple[tuple[int, int], bytes]] = iter(())
        while not self._is_done:
            while not channel.is_sending:
                if (part := next(parts, None)) is not None:
                    self._sent_to = part[0]
                    channel.send(part[1])
                elif (block := self._following()) is not None:
                    parts = block.parts()
                else:
                    break
            # Nothing rings when the application is being stopped.
            self._take(channel.exchange(self._bell, _POLL_SECONDS if self._blocks else None))
            self._give_up_if_stopped_at_work()

    def _give_up_if_stopped_at_work(self) -> None:
        if self._blocks:
            self._give_up_if_stopped()

    def _following(self) -> _Block | None:
        """Return the next block to send, when it is on the disk."""
        self._settle()
        with self._changed:
            if self._sent == len(self._blocks):
                return None
            block = self._blocks[self._sent]
            last = self._blocks[-1].block.number
            self._sent += 1
        if not block.is_durable:
            self._context.make_durable(last)
            block.is_durable = True
        return block

    def _take(self, came: list[Hello | Frame]) -> None:
        for each in came:
            if isinstance(each, Hello) or each.kind != CONFIRM:
                raise ProtocolError("it sent what only an application sends")
            confirmed = unpack_confirm(each.body)
            if confirmed > self._sent_to:
                raise ProtocolError(
                    f"it confirmed {plural(confirmed[1], 'message')} of block {confirmed[0]}, which it was not sent"
                )
            # Before it confirms, it has compared what it was sent with what it has read.
            self._place, self._has_compared = Place(*confirmed, 0), True
            self._settle()

    def _take_last(self, channel: Channel) -> None:
        """Take what a script has confirmed before it ended."""
        with contextlib.suppress(OSError, ProtocolError):
            while came := channel.receive():
                self._take(came)

    def _settle(self) -> None:
        """Report blocks that the script has confirmed; a run that was killed may have sent them, and not noted that."""
        number, count, checksum = self._place
        while self._blocks and self._blocks[0].has_all(number, count):
            self._progress_at = time.monotonic()
            with self._changed:
                block = self._blocks.popleft().block
                self._sent = max(self._sent - 1, 0)
            block.delivered()
        if not self._blocks or self._blocks[0].block.number != number:
            return
        first = self._blocks[0]
        if not self._has_compared and not first.starts_with(count, checksum):
            self._context.notice(
                f"Block {number} was computed again, and its outputs come in another order than those that "
                f"{self._where} has confirmed: all of them are sent again."
            )
            first.restart()
            self._place = Place(number, 0, 0)
        elif first.confirm(count):
            self._progress_at = time.monotonic()
        self._has_compared = True


class _Block:
    """A block, and how much of it the script has confirmed."""

    def __init__(self, block: OutputBlock) -> None:
        self.block = block
        self.is_durable = False
        numbers = list(accumulate(map(len, block.lengths), initial=0))
        self._sizes = dict(zip(numbers, accumulate(map(len, block.bodies), initial=0), strict=True))
        """The size of the first messages, at the borders between bodies."""
        self._total = numbers[-1]
        # What an earlier run had confirmed need not be sent.
        self._confirmed = next(number for number, size in self._sizes.items() if size == block.done)

    def has_all(self, number: int, count: int) -> bool:
        """Return whether all of the block is confirmed, if so many messages of a block are."""
        return not self._total or self.block.number < number or (self.block.number == number and count == self._total)

    def confirm(self, count: int) -> bool:
        """Count the first messages as confirmed; return whether there are more than before."""
        if count <= self._confirmed:
            return False
        border = max(number for number in self._sizes if number <= count)
        if border > self._confirmed:
            self.block.acknowledged(self._sizes[border])
        self._confirmed = count
        return True

    def starts_with(self, count: int, checksum: int) -> bool:
        """Return whether the first messages have a checksum."""
        return count <= self._total and self._checksum_of_first(count) == checksum

    def restart(self) -> None:
        """Have all messages sent again."""
        self._confirmed = 0
        self.block.resend()

    def parts(self) -> Iterator[tuple[tuple[int, int], bytes]]:
        """Yield frames with the messages that are not confirmed, each with the block and where it ends in it."""
        lengths: list[int] = []
        data: list[Body] = []
        size = 0
        following, checksum = self._confirmed, self._checksum_of_first(self._confirmed)
        for some, body in self._pieces(self._confirmed):
            if lengths and (size + len(body) > FRAME_BYTES or len(lengths) + len(some) > _PART_MESSAGES):
                yield self._part(following, checksum, lengths, data)
                following += len(lengths)
                checksum = checksum_after(checksum, lengths, data)
                lengths, data, size = [], [], 0
            lengths += some
            data.append(body)
            size += len(body)
        if lengths:
            yield self._part(following, checksum, lengths, data)

    def _checksum_of_first(self, count: int) -> int:
        checksum = 0
        for body, lengths in zip(self.block.bodies, self.block.lengths, strict=True):
            if not count:
                break
            some = lengths[:count]
            checksum = checksum_after(checksum, some, [body[: sum(some)]])
            count -= len(some)
        return checksum

    def _pieces(self, first: int) -> Iterator[tuple[Sequence[int], Body]]:
        """Yield the lengths and the bytes of messages from `first` on, as much at a time as a frame has."""
        for body, lengths in zip(self.block.bodies, self.block.lengths, strict=True):
            ends = list(accumulate(lengths))
            low = min(first, len(ends))
            first -= low
            while low < len(ends):
                begin = ends[low - 1] if low else 0
                high = max(bisect_right(ends, begin + FRAME_BYTES, low, min(low + _PART_MESSAGES, len(ends))), low + 1)
                yield lengths[low:high], body[begin : ends[high - 1]]
                low = high

    def _part(
        self, first: int, checksum: int, lengths: Sequence[int], data: Sequence[Body]
    ) -> tuple[tuple[int, int], bytes]:
        number = self.block.number
        return (number, first + len(lengths)), pack_part(number, self._total, first, checksum, lengths, data)


def _place_of(confirmed: Any) -> Place | None:
    """Return what a script says it has confirmed, None if it makes no sense."""
    # A boolean is an int, too.
    if not isinstance(confirmed, list) or len(confirmed) != 3 or any(type(each) is not int for each in confirmed):
        return None
    place = Place(*confirmed)
    return place if place.block >= -1 and place.messages >= 0 else None


def _reason(error: OSError | ProtocolError) -> str:
    if isinstance(error, ProtocolError):
        return error.reason
    return (error.strerror or str(error)).lower()
