"""The TCP sink for receivers that confirm: each block is sent in a frame with its number, and confirmed.

docs/reference/wire-formats.md describes the frames for authors of receivers.
"""

from __future__ import annotations

import select
import socket
import time
import uuid
from struct import Struct

from wallaroo.connectors.base import SinkContext
from wallaroo.connectors.output_block import OutputBlock
from wallaroo.connectors.tcp.sink import TcpSink
from wallaroo.notices import REPORT_AGAIN_SECONDS, Condition

_TIMEOUT_SECONDS = 10.0
_ENDED = "it closed the connection without confirming the block"


class ConfirmedTcpSink(TcpSink):
    """Sends framed blocks to a receiver at (host, port)."""

    def __init__(self, host: str, port: int, context: SinkContext) -> None:
        super().__init__(host, port, context.stopping, context.notice)
        self._stream = stream_id(context.application, self.name)
        self._make_durable = context.make_durable
        self._unconfirmed = Condition(context.notice, interval=REPORT_AGAIN_SECONDS)

    def deliver(self, block: OutputBlock) -> None:
        """Send one block until it is confirmed."""
        self._make_durable(block.number)
        super().deliver(block)

    def _transmit(self, connection: socket.socket, block: OutputBlock) -> None:
        header = HEADER.pack(MAGIC, self._stream, block.number, block.size)
        for part in (header, *block.bodies):
            self._send(connection, part, lambda _size: _raise_if_ended(connection))
        [number] = ANSWER.unpack(self._answer(connection))
        if number != block.number:
            raise ConnectionError(f"it confirmed {number} instead of block {block.number}")
        self._unconfirmed.end(f"The receiver at {self.name} has confirmed the block.")

    def _answer(self, connection: socket.socket) -> bytes:
        answer = b""
        progress = time.monotonic()
        while len(answer) < ANSWER.size:
            try:
                some = connection.recv(ANSWER.size - len(answer))
            except TimeoutError:
                self._give_up_if_stuck(progress)
                if time.monotonic() - progress > _TIMEOUT_SECONDS:
                    self._unconfirmed.begin(
                        f"The receiver at {self.name} was sent a block {_TIMEOUT_SECONDS:g} seconds ago and has not "
                        "confirmed it. Is it one for --effectively-once?"
                    )
            else:
                if not some:
                    raise ConnectionError(_ENDED)
                answer += some
        return answer


def _raise_if_ended(connection: socket.socket) -> None:
    """Raise an error if the receiver has closed its side: it can then still read, but never confirm."""
    look = select.poll()
    look.register(connection, select.POLLIN)
    if look.poll(0) and not connection.recv(1, socket.MSG_PEEK):
        raise ConnectionError(_ENDED)


MAGIC = b"WAL1"
HEADER = Struct(">4s16sQQ")
"""`MAGIC`, the stream, the block's number, the length of the block."""
ANSWER = Struct(">Q")
"""The number of the block that the receiver has."""


def stream_id(application: str, sink: str) -> bytes:
    """Return the id of the stream that an application sends to a sink; it changes only with --reset.

    `application` is the id of the application's state.

    >>> len(stream_id("6f1c3f0d8a3b4b0f9d0a6a1f2f3e4d5c", "127.0.0.1:7002"))
    16
    """
    return uuid.uuid5(uuid.UUID(application), sink).bytes
