"""A receiver that disappears, returns, or does not read, and knows exactly what it was sent.

What a receiver's machine has acknowledged and the receiver has not read is lost when the receiver dies: the guarantees
say so. To tell this from a real loss, the sender is frozen while a connection is closed, and what lies in the
receiver's socket is looked at first: it counts as received.
"""

import contextlib
import fcntl
import random
import select
import socket
import struct
import termios
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from tests.system.harness import PATIENCE

from .oracle import Known, Received

_BUFFER_BYTES = 1 << 16
_TURN_SECONDS = 0.02


@dataclass(eq=False)
class _Connection:
    socket: socket.socket
    known: Known
    data: bytearray = field(default_factory=bytearray)
    ended: bool = False

    def read(self) -> bool:
        """Take what is there; return whether there was anything."""
        try:
            data = self.socket.recv(_BUFFER_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            data = b""  # A process that was killed may leave a reset instead of an end.
        self.data += data
        if not data:
            self.close()
        return bool(data)

    def close(self) -> None:
        self.ended = True
        self.socket.close()

    @property
    def is_behind(self) -> bool:
        """Return whether the sender's system still has something to send."""
        return not self.ended and _unsent(self.socket.getpeername(), self.socket.getsockname())

    def read_all(self) -> None:
        """Take all that a frozen sender has left to its system, which continues sending it."""
        while not self.ended and (self.read() or self.is_behind):
            pass

    def look_at_the_rest(self) -> None:
        """Count as received what a frozen sender's system had acknowledged, without reading it."""
        waiting = -1
        while waiting != (waiting := self._waiting()):
            time.sleep(_TURN_SECONDS)
        if waiting:
            self.data += self.socket.recv(waiting, socket.MSG_PEEK)

    def _waiting(self) -> int:
        answer = fcntl.ioctl(self.socket.fileno(), termios.FIONREAD, struct.pack("i", 0))
        return int(struct.unpack("i", answer)[0])


class ChaosReceiver:
    """A server that keeps what each connection is sent; `look` says what the application knows of its address."""

    def __init__(self, look: Callable[[str], Known]) -> None:
        self._look = look
        self._known = Known()
        self._connections: list[_Connection] = []
        self._holds = 0
        self._lock = threading.RLock()
        self._ending = False
        self._port = 0
        self._server: socket.socket | None = None
        self.open()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """Return where the receiver is, when it is there."""
        return f"127.0.0.1:{self._port}"

    @property
    def received(self) -> list[Received]:
        """Return what each connection was sent so far, in the order in which they came."""
        with self._lock:
            return [Received(bytes(connection.data), connection.known) for connection in self._connections]

    @property
    def size(self) -> int:
        """Return how many bytes have come so far."""
        with self._lock:
            return sum(len(connection.data) for connection in self._connections)

    def latest(self, size: int) -> bytes:
        """Return the last bytes of the last connection."""
        with self._lock:
            return bytes(self._connections[-1].data[-size:]) if self._connections else b""

    def take_note(self) -> None:
        """Look into the application's directory, while no application runs."""
        with self._lock:
            self._known = self._look(self.address)

    def open(self) -> None:
        """Let an application connect (again)."""
        with self._lock:
            if self._server is not None:
                return
            # While no connection is possible, no block can be recorded as sent: this holds until the next connection.
            self.take_note()
            self._server = socket.create_server(("127.0.0.1", self._port)) if self._port else _server()
            # Connections inherit it. Little is on its way, so that a receiver that does not read is soon noticed.
            self._server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
            self._port = self._server.getsockname()[1]

    def close(self, frozen: Callable[[], AbstractContextManager[None]]) -> None:
        """Close everything, as a receiver does that ends; the application does not run while `frozen` does."""
        with self._lock, frozen():
            self._accept()
            for connection in self._connections:
                if not connection.ended:
                    if self._held:
                        connection.look_at_the_rest()
                    else:
                        connection.read_all()
                    connection.close()
            if self._server is not None:
                self._server.close()
                self._server = None

    @property
    def is_behind(self) -> bool:
        """Return whether an application is in the middle of sending: its system could not deliver all of it yet."""
        with self._lock:
            return any(each.is_behind for each in self._connections)

    @property
    def _held(self) -> bool:
        return self._holds > 0

    def hold(self) -> None:
        """Do not read, until all who have requested that have released it."""
        with self._lock:
            self._holds += 1

    def go_on(self) -> None:
        """Take back a request to hold."""
        with self._lock:
            self._holds -= 1

    def wait_for_the_end(self) -> None:
        """Wait until every connection has been ended by the other side."""
        deadline = time.monotonic() + PATIENCE
        while not all(connection.ended for connection in self._connections):
            assert time.monotonic() < deadline, "a connection to the receiver was not ended"
            time.sleep(_TURN_SECONDS)

    def clean_up(self) -> None:
        """End."""
        self._ending = True
        self._thread.join(PATIENCE)
        self.close(contextlib.nullcontext)

    def _serve(self) -> None:
        while not self._ending:
            with self._lock:
                self._accept()
                reading = [] if self._held else [each for each in self._connections if not each.ended]
                waiting = [self._server, *(each.socket for each in reading)]
                ready = select.select([each for each in waiting if each is not None], [], [], 0)[0]
                for connection in reading:
                    if connection.socket in ready:
                        connection.read()
            if not ready:
                # Outside of the lock, so that others get it.
                time.sleep(_TURN_SECONDS / 10)

    def _accept(self) -> None:
        while self._server is not None and select.select([self._server], [], [], 0)[0]:
            accepted, _ = self._server.accept()
            self._connections.append(_Connection(accepted, self._known))


def _server() -> socket.socket:
    """Return a server at a port that the system does not give to others while this one is away."""
    ports = list(range(20_000, 30_000))
    random.shuffle(ports)
    for port in ports:
        with contextlib.suppress(OSError):
            return socket.create_server(("127.0.0.1", port))
    raise OSError("no free port")


def _unsent(local: tuple[str, int], remote: tuple[str, int]) -> bool:
    """Return whether the system still has something to send from one local address to another."""
    wanted = [f":{local[1]:04X}", f":{remote[1]:04X}"]
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if [fields[1][-5:], fields[2][-5:]] == wanted:
            return int(fields[4].partition(":")[0], 16) > 0
    return False
