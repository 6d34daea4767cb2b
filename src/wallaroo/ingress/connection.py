"""One sender's connection."""

from __future__ import annotations

import asyncio
import os
from typing import Protocol, cast

from wallaroo.ingress.framing import Framer, FramingError

READ_BYTES = 256 << 10
"""The most that is taken from a connection before the next one gets its turn."""

# Filling the buffer and taking the bytes out of it is one step of the event loop: all connections share it.
_buffer = bytearray(READ_BYTES)
_view = memoryview(_buffer)


class Receiver(Protocol):
    """What a connection needs from the source it belongs to."""

    def opened(self, connection: Connection) -> None:
        """Take note of a new connection."""

    def received(self, payloads: list[bytes]) -> None:
        """Take the payloads of complete messages, in the order in which they came."""

    def refused(self, connection: Connection, reason: str) -> None:
        """Take note that the connection is closed because its bytes make no sense."""

    def closed(self, connection: Connection) -> None:
        """Take note that the connection is closed."""


class Connection(asyncio.BufferedProtocol):
    """Frames the bytes of one connection and hands the messages of each chunk to the source at once."""

    def __init__(self, receiver: Receiver, framer: Framer) -> None:
        self._receiver = receiver
        self._framer = framer
        self._refused = False
        self.peer = "a sender"
        self.transport: asyncio.Transport | None = None

    @property
    def pending(self) -> int:
        """Return the number of bytes of an unfinished message."""
        return 0 if self._refused else self._framer.pending

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self.transport = cast("asyncio.Transport", transport)
        address = transport.get_extra_info("peername")
        if address:
            self.peer = f"{address[0]}:{address[1]}"
        self._receiver.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature.
        """End, whoever ended it."""
        self.transport = None
        self._receiver.closed(self)

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002 - asyncio's signature.
        """Return where the next bytes are to be put."""
        return _buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take the bytes that have come."""
        self._take(bytes(_view[:nbytes]))

    def read_rest(self, max_bytes: int) -> bool:
        """Read what has arrived already, without waiting for more; return whether there may be more of it."""
        if self.transport is None or self.transport.is_closing():
            return False
        file = self.transport.get_extra_info("socket").fileno()
        while max_bytes > 0:
            try:
                data = os.read(file, READ_BYTES)
            except OSError:
                return False
            if not data or not self._take(data):
                return False
            max_bytes -= len(data)
        return True

    def close(self) -> None:
        """Close the connection."""
        if self.transport is not None:
            self.transport.close()

    def _take(self, data: bytes) -> bool:
        try:
            payloads = self._framer.feed(data)
        except FramingError as error:
            self._refused = True
            self._receiver.received(error.complete)
            self._receiver.refused(self, error.reason)
            self.close()
            return False
        self._receiver.received(payloads)
        return True
