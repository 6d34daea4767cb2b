"""A connection that speaks the protocol of extensions, used by one thread, which others can wake."""

from __future__ import annotations

import contextlib
import select
import socket
from typing import Self

from wallaroo.connectors.extension.protocol import Frame, Hello, Incoming
from wallaroo.internal_sockets import set_no_delay

_RECEIVE_BYTES = 256 << 10


class Bell:
    """Wakes a thread that waits for a connection.

    >>> bell = Bell()
    >>> bell.ring(); bell.ring()
    >>> bell.wait(5), bell.wait(0)
    (True, False)
    >>> bell.close()
    """

    def __init__(self) -> None:
        self._rings, self._hears = socket.socketpair()
        self._rings.setblocking(False)
        self._hears.setblocking(False)

    def fileno(self) -> int:
        """Return what can be polled for reading."""
        return self._hears.fileno()

    def ring(self) -> None:
        """Wake the thread, now or when it waits the next time."""
        with contextlib.suppress(OSError):  # It has been woken often enough, or is gone.
            self._rings.send(b"!")

    def silence(self) -> None:
        """Forget that it has rung."""
        with contextlib.suppress(OSError):
            while self._hears.recv(4096):
                pass

    def wait(self, timeout: float | None) -> bool:
        """Wait until it rings; return whether it has."""
        waiting = select.poll()
        waiting.register(self, select.POLLIN)
        rung = bool(waiting.poll(None if timeout is None else max(timeout, 0) * 1000))
        self.silence()
        return rung

    def close(self) -> None:
        """Close it."""
        self._rings.close()
        self._hears.close()


class Channel:
    """A connection to the other side: sends what is queued, and returns what has come."""

    def __init__(self, connection: socket.socket, most: int) -> None:
        """Use an open connection, and take frames of up to `most` bytes."""
        connection.setblocking(False)
        # Confirmations are small, and what the system holds back is lost if this process is killed.
        set_no_delay(connection)
        self._socket = connection
        self._incoming = Incoming(most)
        self._outgoing: list[memoryview] = []
        self.peer = _shown(connection)

    @property
    def is_sending(self) -> bool:
        """Return whether something is queued that the kernel has not taken."""
        return bool(self._outgoing)

    @property
    def pending(self) -> int:
        """Return how many bytes have come of what is not complete."""
        return self._incoming.pending

    def fileno(self) -> int:
        """Return what can be polled."""
        return self._socket.fileno()

    def send(self, data: bytes) -> None:
        """Send `data`, as soon as the other side takes it."""
        self._outgoing.append(memoryview(data))
        self.flush()

    def flush(self) -> None:
        """Send what is queued, as much as the kernel takes now.

        Raises:
            OSError: The connection is broken.
        """
        while self._outgoing:
            try:
                sent = self._socket.send(self._outgoing[0])
            except (BlockingIOError, InterruptedError):
                return
            if sent < len(self._outgoing[0]):
                self._outgoing[0] = self._outgoing[0][sent:]
            else:
                del self._outgoing[0]

    def receive(self) -> list[Hello | Frame]:
        """Return what is complete now, without waiting.

        Raises:
            ProtocolError: The other side sends nonsense.
            OSError: The connection is broken, or ended.
        """
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except (BlockingIOError, InterruptedError):
            return []
        if not data:
            raise ConnectionError("it closed the connection")
        return self._incoming.feed(data)

    def exchange(self, bell: Bell, timeout: float | None) -> list[Hello | Frame]:
        """Wait until something has come, or the bell rings; return what is complete, and send meanwhile."""
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN | (select.POLLOUT if self._outgoing else 0))
        waiting.register(bell, select.POLLIN)
        ready = dict(waiting.poll(None if timeout is None else max(timeout, 0) * 1000))
        if bell.fileno() in ready:
            bell.silence()
        event = ready.get(self._socket.fileno(), 0)
        if event & ~select.POLLIN:
            self.flush()
        return self.receive() if event & ~select.POLLOUT else []

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _shown(connection: socket.socket) -> str:
    try:
        host, port = connection.getpeername()[:2]
    except OSError:
        return "an address that is gone"
    return f"{host}:{port}"
