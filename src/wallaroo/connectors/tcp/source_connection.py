"""One sender's connection."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import time
from typing import Protocol, cast

from wallaroo.ingress.framing import Framer, FramingError, LineFramer
from wallaroo.ingress.partial_frames import PartialFrames

READ_BYTES = 256 << 10
"""The maximum read from a connection before the next one is read."""

# Shared by all connections: the event loop fills and empties it in one step.
_buffer = bytearray(READ_BYTES)
_view = memoryview(_buffer)


# What closing a connection does: reset it, or end it cleanly.
_RESET = struct.pack("ii", 1, 0)
_END = struct.pack("ii", 0, 0)


class Receiver(Protocol):
    """What a connection needs from the source it belongs to."""

    @property
    def has_written_all(self) -> bool:
        """Return whether everything that was received is in the log."""

    def opened(self, connection: Connection) -> None:
        """Handle a new connection."""

    def received(self, payloads: list[bytes]) -> None:
        """Handle the payloads of complete messages, in the order in which they arrived."""

    def refused(self, connection: Connection, kind: str, reason: str) -> None:
        """Handle a connection that is closed from this side; `kind` is a short category, for summaries."""

    def closed(self, connection: Connection) -> None:
        """Handle the end of a connection."""


class Connection(asyncio.BufferedProtocol):
    """Frames the bytes of one connection and passes the messages of each chunk to the source together.

    A connection is closed cleanly only when the sender has ended its stream after a whole message and all of it is in
    the log, so a clean end is a confirmation. Any other end is a reset, also when this process is killed between
    reading and writing.
    """

    def __init__(self, receiver: Receiver, framer: Framer | LineFramer, unfinished: PartialFrames) -> None:
        self._receiver = receiver
        self._framer = framer
        self._unfinished = unfinished
        self._counted = 0
        self._refused = False
        self._reasons_to_wait: set[object] = set()
        self._read_at = time.monotonic()
        self._reported_stuck = False
        self.peer = "a sender"
        self.transport: asyncio.Transport | None = None

    @property
    def pending(self) -> int:
        """Return the number of bytes of an unfinished message."""
        return 0 if self._refused else self._framer.pending

    @property
    def is_held(self) -> bool:
        """Return whether reading is paused."""
        return bool(self._reasons_to_wait)

    def stuck_for(self, seconds: float) -> str | None:
        """Return, once, what the unfinished message lacks if nothing was received for so many seconds."""
        if self.is_held:
            self._read_at = time.monotonic()  # The sender is not the cause of the delay.
        if self._reported_stuck or not self.pending or time.monotonic() - self._read_at < seconds:
            return None
        self._reported_stuck = True
        return self._framer.lacking

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Handle the beginning of the connection."""
        self.transport = cast("asyncio.Transport", transport)
        self._when_closed(_RESET)
        address = transport.get_extra_info("peername")
        if address:
            self.peer = f"{address[0]}:{address[1]}"
        self._receiver.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature.
        """Handle the end of the connection."""
        self.transport = None
        self._unfinished.forget(self, self._counted)
        self._receiver.closed(self)

    def get_buffer(self, sizehint: int) -> bytearray | memoryview:  # noqa: ARG002 - asyncio's signature.
        """Return the buffer for the next bytes."""
        room = self._unfinished.room_for(self, READ_BYTES)
        return _buffer if room == READ_BYTES else _view[:room]

    def buffer_updated(self, nbytes: int) -> None:
        """Handle the bytes that were received."""
        self._take(bytes(_view[:nbytes]))

    def eof_received(self) -> None:
        """Handle the end of the sender's stream; the connection is closed after this."""
        if not self._refused:
            self._hand_over(self._framer.finish())
        # Half a message is not accepted, so a stream that ends inside one was not accepted as a whole.
        if self._receiver.has_written_all and not self.pending:
            self._when_closed(_END)

    def read_rest(self, max_bytes: int) -> int:
        """Read some of what has already arrived, without waiting for more; return the number of bytes."""
        if self.transport is None or self.transport.is_closing():
            return 0
        try:
            data = os.read(self.fileno(), min(max_bytes, READ_BYTES))
        except OSError:
            return 0
        if not data:
            self.eof_received()
        return len(data) if data and self._take(data) else 0

    def fileno(self) -> int:
        """Return the file descriptor; the connection must be open."""
        assert self.transport is not None
        descriptor: int = self.transport.get_extra_info("socket").fileno()
        return descriptor

    def hold(self, why: object) -> None:
        """Pause reading until `why` no longer applies."""
        self._reasons_to_wait.add(why)
        if self.transport is not None:
            self.transport.pause_reading()

    def release(self, why: object) -> None:
        """Resume reading, unless another reason to pause applies."""
        self._reasons_to_wait.discard(why)
        if self.transport is not None and not self._reasons_to_wait:
            self.transport.resume_reading()

    def give_up(self, kind: str, reason: str, last: bytes = b"") -> None:
        """Close the connection and report the reason; the unfinished message is dropped, and `last` is sent first."""
        self._refused = True
        self._receiver.refused(self, kind, reason)
        if last and self.transport is not None:
            self._when_closed(_END)
            self.transport.write(last)
        self.close()

    def close(self) -> None:
        """Close the connection."""
        if self.transport is not None:
            self.transport.close()

    def _when_closed(self, what: bytes) -> None:
        assert self.transport is not None
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, what)

    def _take(self, data: bytes) -> bool:
        self._read_at = time.monotonic()
        try:
            payloads = self._framer.feed(data)
        except FramingError as error:
            self._receiver.received(error.complete)
            self.give_up("sent what cannot be framed", f": {error.reason}.")
            return False
        self._hand_over(payloads)
        return True

    def _hand_over(self, payloads: list[bytes]) -> None:
        pending = self._framer.pending
        if pending != self._counted:
            change = pending - self._counted
            self._counted = pending
            self._unfinished.changed(self, change)
        self._receiver.received(payloads)
