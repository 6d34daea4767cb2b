"""The TCP sink: one connection to one receiver, which is re-established when it breaks.

A block counts as delivered when the receiver's machine has acknowledged all of its bytes; meanwhile, progress is
recorded. When a connection breaks before that, the whole block is sent again on the next one, because TCP does not tell
how much of it the receiver has read.
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
from wallaroo.notices import REPORT_AGAIN_SECONDS, Condition, Notice

_FIRST_RETRY_SECONDS = 0.1
_LONGEST_RETRY_SECONDS = 5.0
_DIAL_SECONDS = 10.0
_MAX_UNSENT_BYTES = 1 << 18
_POLL_SECONDS = 0.5
_STOPPING_TIMEOUT_SECONDS = 5.0
_SILENT_SECONDS = 60.0
"""After how long a receiver that reads nothing is reported: it may be busy, or its machine may be down.

Linux could end such a connection (TCP_USER_TIMEOUT), but then also one whose receiver is alive and only does not read.
So it is left to the kernel, which gives up on a machine that is down after about a quarter of an hour.
"""


class TcpSink:
    """Sends to a receiver at (host, port)."""

    def __init__(self, host: str, port: int, stopping: threading.Event, notice: Notice) -> None:
        self.name = f"{host}:{port}"
        self._address = (host, port)
        self._stopping = stopping
        self._missing = Condition(notice, interval=REPORT_AGAIN_SECONDS)
        self._broken = Condition(notice, interval=REPORT_AGAIN_SECONDS)
        self._silent = Condition(notice, interval=REPORT_AGAIN_SECONDS)
        self._interrupted = False
        """Whether the receiver was disconnected in this run, and may have lost bytes that it had not read."""
        self._socket: socket.socket | None = None
        self._connecting = threading.Lock()

    def deliver(self, block: OutputBlock) -> None:
        """Send one block."""
        backoff: Backoff | None = None
        try:
            while not self._attempt(block):
                # The first reconnect is immediate. A receiver that repeatedly accepts and closes is then retried with
                # a backoff.
                if backoff is None:
                    backoff = _retries()
                else:
                    self._stopping.wait(backoff.next())
        except StoppedError:
            block.resend()
            raise
        self._silent.end(f"The receiver at {self.name} takes outputs again.")
        self._broken.end(f"The receiver at {self.name} is back; the block was sent again.")
        block.delivered()

    def _attempt(self, block: OutputBlock) -> bool:
        """Send a block on the existing connection, or a new one; return whether it has been delivered."""
        connection = self._connected()
        if self._interrupted:
            block.resend()
        try:
            self._transmit(connection, block)
        except OSError as error:
            self._drop()
            self._interrupted = True
            self._broken.begin(
                f"Lost the receiver at {self.name} ({_reason(error)}); the whole block is sent again when it is back."
            )
            return False
        return True

    def connect(self) -> None:
        """Connect before the first block, waiting for the receiver."""
        with contextlib.suppress(StoppedError):
            self._connected()

    def close(self) -> None:
        """Close the connection cleanly: the receiver gets everything that was sent, then the end of the stream."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)
        self._drop()

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connected(self) -> socket.socket:
        """Return the connection; reconnects if necessary.

        Whether the receiver has closed its side is not checked here: a receiver that never sends may have closed the
        unused direction. A receiver that is really gone answers the next data with a reset, which `deliver` handles.
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
                    self._missing.begin(
                        f"Waiting for a receiver at {self.name} ({_reason(error)}); retrying until it is available."
                    )
                self._stopping.wait(backoff.next())
        self._missing.end(f"Connected to the receiver at {self.name}.")
        return self._socket

    def _open(self) -> socket.socket:
        connection = dial(self._address, _DIAL_SECONDS)
        connection.settimeout(_POLL_SECONDS)
        if sys.platform.startswith("linux"):
            # The kernel sends what it has buffered even if this process is killed, and the ledger would not know it.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _MAX_UNSENT_BYTES)
        return connection

    def _transmit(self, connection: socket.socket, block: OutputBlock) -> None:
        """Send the rest of a block and wait until it is acknowledged; raise OSError if the connection breaks."""
        sent = block.done

        def look(size: int) -> None:
            nonlocal sent
            sent += size
            block.acknowledged(sent - unacknowledged(connection))

        for body in block.left:
            self._send(connection, body, look)
        self._wait_until_acknowledged(connection, look)

    def _send(self, connection: socket.socket, data: Body, on_progress: Callable[[int], None]) -> None:
        """Send all of `data`, however slowly the receiver reads, unless the application is being stopped."""
        rest = memoryview(data)
        progress = time.monotonic()
        while rest:
            try:
                size = connection.send(rest)
            except TimeoutError:
                size = 0
                self._report_if_silent(progress)
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
            # What was not sent on a broken connection stays unacknowledged forever.
            raise_if_broken(connection)
            self._report_if_silent(progress)
            self._give_up_if_stuck(progress)
        raise_if_broken(connection)

    def _report_if_silent(self, progress: float) -> None:
        if time.monotonic() - progress > _SILENT_SECONDS:
            self._silent.begin(
                f"The receiver at {self.name} has taken nothing for {_SILENT_SECONDS:g} seconds: it does not read, or "
                "its machine is gone. Outputs wait for it."
            )

    def _give_up_if_stuck(self, progress: float) -> None:
        """Stop waiting for a receiver that makes no progress, once the application is being stopped."""
        if self._stopping.is_set() and time.monotonic() - progress > _STOPPING_TIMEOUT_SECONDS:
            raise StoppedError


def _retries() -> Backoff:
    return Backoff(_FIRST_RETRY_SECONDS, longest=_LONGEST_RETRY_SECONDS, jitter=0.3)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
