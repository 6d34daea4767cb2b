"""How workers on other machines read the messages of a block: from the ingress, over TCP.

A request is a line of JSON with the token, the source and the range. The answer is pieces of the log in the format of
its files, each preceded by a header, and a final header that marks the end or an error.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from struct import Struct
from typing import Any

from wallaroo.backoff import Backoff
from wallaroo.connectors.base import Piece
from wallaroo.ingress.client import TIMEOUT_SECONDS
from wallaroo.ingress.log.format import LogCorruptError
from wallaroo.ingress.log.reader import RawPiece
from wallaroo.internal_sockets import dial

HEAD = Struct("<BQQII")
"""The kind; the index of the first message; the offset of the data in its file; the sizes of the ends and the data."""
PIECE, ALL, DAMAGED = range(3)

_ANSWER_SECONDS = 60.0
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0
_READ_BYTES = 1 << 18


class RemoteMessages:
    """Reads messages from the ingress at `address`. Connections are reused for the next blocks."""

    def __init__(self, address: str, token: str, *, timeout: float = TIMEOUT_SECONDS) -> None:
        self._address = address
        self._token = token
        self._timeout = timeout
        self._idle: list[_Connection] = []
        """More than one if a range is read again while it is being read, to look something up."""

    def log_of(self, source: str) -> RemoteLog:
        """Return a reader for the log of one source."""
        return RemoteLog(self, source)

    def read(self, source: str, first: int, end: int) -> Iterator[Piece]:
        """Yield the messages that exist, piece by piece.

        Waits for an ingress that is being restarted, and resumes after the last piece.

        Raises:
            LogCorruptError: Some of the messages are damaged or missing; those before them have been yielded.
            ConnectionError: The ingress does not answer.
        """
        deadline = time.monotonic() + self._timeout
        backoff = Backoff(_FIRST_PAUSE, longest=_LONGEST_PAUSE)
        while True:
            try:
                for piece in self._pieces(source, first, end):
                    yield piece.first, piece.messages()
                    first = piece.end
                    deadline = time.monotonic() + self._timeout
                    backoff.reset()
            except OSError as error:
                # The other idle connections lead to the same dead ingress.
                self.close()
                if time.monotonic() + backoff.pause > deadline:
                    raise ConnectionError(
                        f"the process that accepts connections does not answer at {self._address} ({error})"
                    ) from error
            else:
                return
            time.sleep(backoff.next())

    def _pieces(self, source: str, first: int, end: int) -> Iterator[RawPiece]:
        line = self._idle.pop() if self._idle else _Connection(self._address)
        done = False
        try:
            line.ask({"op": "messages", "token": self._token, "source": source, "first": first, "end": end})
            while (piece := line.piece()) is not None:
                yield piece
            done = True
        finally:
            # If the caller stops early, the rest of the answer is still on the connection.
            if done:
                self._idle.append(line)
            else:
                line.close()

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()


class RemoteLog:
    """Reads the log of one source from the ingress (a `SourceReader`)."""

    def __init__(self, messages: RemoteMessages, source: str) -> None:
        self._messages = messages
        self._source = source

    def read(self, first: int, end: int, lane: int = 0) -> Iterator[Piece]:  # noqa: ARG002 - a log has one lane
        """Yield the messages that exist, piece by piece."""
        return self._messages.read(self._source, first, end)


class _Connection:
    """One connection."""

    def __init__(self, address: str) -> None:
        self._socket: socket.socket = dial(address)
        self._socket.settimeout(_ANSWER_SECONDS)
        self._stream = self._socket.makefile("rb", buffering=_READ_BYTES)

    def ask(self, request: dict[str, Any]) -> None:
        self._socket.sendall(json.dumps(request).encode() + b"\n")

    def piece(self) -> RawPiece | None:
        """Return the next piece, None after the last one."""
        kind, first, data_start, ends_size, data_size = HEAD.unpack(self._exactly(HEAD.size))
        ends, data = self._exactly(ends_size), self._exactly(data_size)
        if kind == DAMAGED:
            raise LogCorruptError(data.decode(errors="replace"))
        return RawPiece(first, data_start, ends, data) if kind == PIECE else None

    def _exactly(self, size: int) -> bytes:
        data: bytes = self._stream.read(size)
        if len(data) < size:
            raise ConnectionError("it has closed the connection")
        return data

    def close(self) -> None:
        self._stream.close()
        self._socket.close()
