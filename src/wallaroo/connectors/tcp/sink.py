"""The TCP sink: one connection to one receiver, kept as long as it lasts and made again when it breaks.

A block counts as delivered when the receiver's machine has acknowledged all of its bytes; on the way, it is noted how
far it has got. When a connection breaks before the end, the whole block is sent again on the next one: TCP does not
tell how much of it was read.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time
from collections.abc import Callable

from wallaroo.backoff import Backoff
from wallaroo.connectors.base import StoppedError
from wallaroo.connectors.output_block import Body, OutputBlock
from wallaroo.connectors.tcp.sockets import dial, raise_if_broken, unacknowledged
from wallaroo.notices import Notice, ThrottledNotice

_FIRST_RETRY_SECONDS = 0.1
_LONGEST_RETRY_SECONDS = 5.0
_DIAL_SECONDS = 10.0
_UNSENT_AT_MOST = 1 << 18
_LOOK_AROUND_SECONDS = 0.5
_PATIENCE_WHEN_STOPPING_SECONDS = 5.0


class TcpSink:
    """Sends to a receiver at (host, port)."""

    def __init__(self, host: str, port: int, stopping: threading.Event, notice: Notice) -> None:
        self.name = f"{host}:{port}"
        self._address = (host, port)
        self._stopping = stopping
        self._missing = ThrottledNotice(notice)
        self._broken = ThrottledNotice(notice)
        self._interrupted = False
        """Whether the receiver has been gone in this run, perhaps with what it had not read."""
        self._socket: socket.socket | None = None
        self._connecting = threading.Lock()

    def deliver(self, block: OutputBlock) -> None:
        """Send one block."""
        backoff: Backoff | None = None
        try:
            while not self._attempt(block):
                # A connection that has broken is made again at once, the first time. A receiver that accepts and closes
                # again and again is then asked with pauses.
                if backoff is None:
                    backoff = _retries()
                else:
                    self._stopping.wait(backoff.next())
        except StoppedError:
            block.begin_again()
            raise
        self._broken.is_over(f"The receiver at {self.name} is back; the block was sent again.")

    def _attempt(self, block: OutputBlock) -> bool:
        """Send a block on the connection there is, or a new one; tell whether it has arrived."""
        connection = self._connected()
        if self._interrupted:
            block.begin_again()
        try:
            self._transmit(connection, block)
        except OSError as error:
            self._drop()
            self._interrupted = True
            self._broken.begins(
                f"Lost the receiver at {self.name} ({_plainly(error)}); the whole block is sent again when it is back."
            )
            return False
        return True

    def connect(self) -> None:
        """Connect ahead of the first block, waiting for the receiver."""
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
        backoff = _retries()
        while self._socket is None:
            if self._stopping.is_set():
                raise StoppedError
            try:
                self._socket = self._open()
            except OSError as error:
                self._interrupted = True
                if not self._broken.present:
                    self._missing.begins(
                        f"Waiting for a receiver at {self.name} ({_plainly(error)}); trying again until it is there."
                    )
                self._stopping.wait(backoff.next())
        self._missing.is_over(f"Connected to the receiver at {self.name}.")
        return self._socket

    def _open(self) -> socket.socket:
        connection = dial(self._address, _DIAL_SECONDS)
        connection.settimeout(_LOOK_AROUND_SECONDS)
        if sys.platform.startswith("linux"):
            # What the system holds is sent even if this process is killed, without a note of it in the ledger.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_AT_MOST)
        return connection

    def _transmit(self, connection: socket.socket, block: OutputBlock) -> None:
        """Send what is left of a block and wait until it is known to have arrived; raise OSError if it has not."""
        sent = block.done

        def look(size: int) -> None:
            nonlocal sent
            sent += size
            block.acknowledged(sent - unacknowledged(connection))

        for body in block.left:
            self._send(connection, body, look)
        self._wait_until_acknowledged(connection, look)

    def _send(self, connection: socket.socket, data: Body, on_progress: Callable[[int], None]) -> None:
        """Send all of `data`, for as long as the receiver takes to read it, unless the application is stopped."""
        rest = memoryview(data)
        progress = time.monotonic()
        while rest:
            try:
                size = connection.send(rest)
            except TimeoutError:
                size = 0
                self._give_up_if_stuck(progress)
            else:
                rest = rest[size:]
                progress = time.monotonic()
            on_progress(size)

    def _wait_until_acknowledged(self, connection: socket.socket, look: Callable[[int], None]) -> None:
        progress = time.monotonic()
        waiting = unacknowledged(connection)
        backoff = Backoff(0.00005, longest=0.004)
        while waiting:
            time.sleep(backoff.next())
            before, waiting = waiting, unacknowledged(connection)
            if waiting < before:
                progress = time.monotonic()
                look(0)
            # What a broken connection had not sent stays unacknowledged for ever.
            raise_if_broken(connection)
            self._give_up_if_stuck(progress)
        raise_if_broken(connection)

    def _give_up_if_stuck(self, progress: float) -> None:
        """Stop waiting for a receiver that takes nothing, once the application is being stopped."""
        if self._stopping.is_set() and time.monotonic() - progress > _PATIENCE_WHEN_STOPPING_SECONDS:
            raise StoppedError


def _retries() -> Backoff:
    return Backoff(_FIRST_RETRY_SECONDS, longest=_LONGEST_RETRY_SECONDS, jitter=0.3)


def _plainly(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
