"""The TCP sink: one connection to one receiver, kept as long as it lasts and made again when it breaks.

A batch counts as delivered when the receiver's machine has acknowledged all of its bytes. When a connection
breaks before that, the whole batch is sent again on the next one: TCP does not tell how much of it was read.
"""

from __future__ import annotations

import contextlib
import fcntl
import random
import socket
import struct
import sys
import threading
import time
from collections.abc import Sequence

from wallaroo.connectors.base import Notice, StoppedError

_FIRST_RETRY_SECONDS = 0.1
_LONGEST_RETRY_SECONDS = 5.0
_UNSENT_BYTES_REQUEST = 0x5411  # SIOCOUTQ
_LOOK_AROUND_SECONDS = 0.5
_PATIENCE_WHEN_STOPPING_SECONDS = 5.0


class TcpSink:
    """Sends to a receiver at (host, port)."""

    def __init__(self, host: str, port: int, stopping: threading.Event, notice: Notice) -> None:
        self.name = f"{host}:{port}"
        self._address = (host, port)
        self._stopping = stopping
        self._notice = notice
        self._socket: socket.socket | None = None
        self._connecting = threading.Lock()

    def deliver(self, bodies: Sequence[bytes]) -> None:
        """Send one batch."""
        while True:
            connection = self._connected()
            try:
                for body in bodies:
                    self._send(connection, memoryview(body))
                self._wait_until_acknowledged(connection)
            except OSError as error:
                self._drop()
                self._notice(
                    f"Lost the receiver at {self.name} ({_plainly(error)}); sending the batch again when it is back."
                )
            else:
                return

    def connect(self) -> None:
        """Connect ahead of the first batch, waiting for the receiver."""
        with contextlib.suppress(StoppedError):
            self._connected()

    def close(self) -> None:
        """Close the connection in good order: the receiver gets all that was sent, then the end of the stream."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)
        self._drop()

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connected(self) -> socket.socket:
        """Return the connection, a new one if need be.

        That the receiver has closed its side is not looked for here: a receiver without standard input may have
        closed the half it does not use. One that is really gone answers what is sent next with a reset, which
        `deliver` sees.
        """
        with self._connecting:
            return self._socket or self._wait_for_receiver()

    def _wait_for_receiver(self) -> socket.socket:
        wait = _FIRST_RETRY_SECONDS
        complained = False
        while self._socket is None:
            if self._stopping.is_set():
                raise StoppedError
            try:
                self._socket = self._open()
            except OSError as error:
                if not complained:
                    self._notice(
                        f"Waiting for a receiver at {self.name} ({_plainly(error)}); trying again until it is there."
                    )
                    complained = True
                self._stopping.wait(wait * random.uniform(0.7, 1.3))  # noqa: S311 - spreads retries
                wait = min(2 * wait, _LONGEST_RETRY_SECONDS)
        if complained:
            self._notice(f"Connected to the receiver at {self.name}.")
        return self._socket

    def _open(self) -> socket.socket:
        connection = socket.create_connection(self._address, timeout=10)
        if connection.getsockname() == connection.getpeername():
            # Connecting to a free local port can meet itself when the system picks that very port for our side.
            connection.close()
            raise ConnectionRefusedError(111, "Connection refused")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(_LOOK_AROUND_SECONDS)
        return connection

    def _send(self, connection: socket.socket, data: memoryview) -> None:
        """Send all of `data`, for as long as the receiver takes to read it, unless the application is stopped."""
        progress = time.monotonic()
        while data:
            try:
                data = data[connection.send(data) :]
                progress = time.monotonic()
            except TimeoutError:
                self._give_up_if_stuck(progress)

    def _wait_until_acknowledged(self, connection: socket.socket) -> None:
        if not sys.platform.startswith("linux"):
            return
        progress = time.monotonic()
        waiting = _unacknowledged(connection)
        pause = 0.00005
        while waiting:
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
            before, waiting = waiting, _unacknowledged(connection)
            if waiting < before:
                progress = time.monotonic()
            # What a broken connection had not sent stays unacknowledged for ever.
            _raise_if_broken(connection)
            self._give_up_if_stuck(progress)
        _raise_if_broken(connection)

    def _give_up_if_stuck(self, progress: float) -> None:
        """Stop waiting for a receiver that takes nothing, once the application is being stopped."""
        if self._stopping.is_set() and time.monotonic() - progress > _PATIENCE_WHEN_STOPPING_SECONDS:
            raise StoppedError


def _raise_if_broken(connection: socket.socket) -> None:
    error = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if error:
        raise OSError(error, "the connection broke")


def _unacknowledged(connection: socket.socket) -> int:
    answer = fcntl.ioctl(connection.fileno(), _UNSENT_BYTES_REQUEST, struct.pack("i", 0))
    number: int = struct.unpack("i", answer)[0]
    return number


def _plainly(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
