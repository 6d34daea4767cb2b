"""The TCP sink for receivers that help: blocks in frames with their ids, each confirmed by the receiver.

A block counts as delivered when the receiver has confirmed it. Until then it is sent again and again, as a whole, and
the receiver drops what it already has: so it has each block once, whoever dies when.
"""

from __future__ import annotations

import select
import socket
import threading
import time

from wallaroo.connectors.base import Notice
from wallaroo.connectors.output_block import OutputBlock
from wallaroo.connectors.tcp.block_frames import ANSWER, HEADER, MAGIC, stream_id
from wallaroo.connectors.tcp.sink import TcpSink
from wallaroo.connectors.troubles import Trouble

_PATIENCE_SECONDS = 10.0
_ENDED = "it closed the connection without confirming the block"


class ConfirmedTcpSink(TcpSink):
    """Sends framed blocks to a receiver at (host, port); `application` is the id of the state that they come from."""

    def __init__(self, host: str, port: int, stopping: threading.Event, notice: Notice, *, application: str) -> None:
        super().__init__(host, port, stopping, notice)
        self._stream = stream_id(application, self.name)
        self._unconfirmed = Trouble(notice)

    def _transmit(self, connection: socket.socket, block: OutputBlock) -> None:
        header = HEADER.pack(MAGIC, self._stream, block.number, block.size)
        for part in (header, *block.bodies):
            self._send(connection, part, lambda _size: _raise_if_ended(connection))
        [number] = ANSWER.unpack(self._answer(connection))
        if number != block.number:
            raise ConnectionError(f"it confirmed {number} instead of block {block.number}")
        self._unconfirmed.is_over(f"The receiver at {self.name} has confirmed the block.")

    def _answer(self, connection: socket.socket) -> bytes:
        answer = b""
        progress = time.monotonic()
        while len(answer) < ANSWER.size:
            try:
                some = connection.recv(ANSWER.size - len(answer))
            except TimeoutError:
                self._give_up_if_stuck(progress)
                if time.monotonic() - progress > _PATIENCE_SECONDS:
                    self._unconfirmed.begins(
                        f"The receiver at {self.name} was sent a block {_PATIENCE_SECONDS:g} seconds ago and has not "
                        "confirmed it. Is it one for --effectively-once?"
                    )
            else:
                if not some:
                    raise ConnectionError(_ENDED)
                answer += some
        return answer


def _raise_if_ended(connection: socket.socket) -> None:
    """Raise an error if the receiver has ended its side: then it can read what it likes, and never confirm it."""
    look = select.poll()
    look.register(connection, select.POLLIN)
    if look.poll(0) and not connection.recv(1, socket.MSG_PEEK):
        raise ConnectionError(_ENDED)
