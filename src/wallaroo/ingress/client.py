"""The client for the control socket of the ingress process."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from wallaroo.backoff import Backoff
from wallaroo.errors import WallarooError
from wallaroo.ingress.lanes import Lane, dump_ends

if TYPE_CHECKING:
    from wallaroo.ingress.source import SourceStatus

TIMEOUT_SECONDS = 30.0
"""How long a client retries while the ingress process does not answer: it may be about to be restarted."""

_ANSWER_SECONDS = 60.0


class IngressUnavailableError(WallarooError):
    """The ingress process does not answer; it may be about to be restarted."""


class IngressClient:
    """Talks to the ingress process over its control socket, from any number of threads.

    A client can be pickled: it holds only the path and the token, and connects when needed.
    """

    def __init__(self, control_path: str, token: str, *, timeout: float = TIMEOUT_SECONDS) -> None:
        self._control_path = control_path
        self._token = token
        self._timeout = timeout
        self._owner = os.getpid()
        self._idle: list[socket.socket] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return _make_client, (self._control_path, self._token, self._timeout)

    def delivered(self, block: int) -> None:
        """Report that the outputs of all blocks before `block` have been delivered."""
        self._ask({"op": "delivered", "block": block})

    def committed(self, block: int, ends: Mapping[Lane[str], int]) -> None:
        """Report that the blocks before `block`, and of each lane the messages before these, are committed."""
        self._ask({"op": "committed", "block": block, "ends": dump_ends(ends)})

    def end_epoch(self, of: int | None = None) -> int | None:
        """End the current epoch, or the one of block `of`; return the block where it ends, None without an epoch."""
        block: int | None = self._ask({"op": "end epoch", "of": of})["block"]
        return block

    def force(self) -> int:
        """Have all blocks and their messages synced to disk; return the first block that may not be durable."""
        block: int = self._ask({"op": "force"})["block"]
        return block

    def tick(self) -> None:
        """Request a block without messages."""
        self._ask({"op": "tick"})

    def drain(self) -> dict[str, int]:
        """Stop accepting, read what has already arrived, and return where the sources end."""
        ends: dict[str, int] = self._ask({"op": "drain"})["ends"]
        return ends

    def status(self, *, within: float | None = None) -> dict[str, SourceStatus]:
        """Return the status of each source; give up after `within` seconds instead of the default timeout."""
        status: dict[str, SourceStatus] = self._ask({"op": "status"}, within)["status"]
        return status

    def damage(self, *, within: float) -> str | None:
        """Return why blocks that are needed again cannot be read, None if none is damaged; give up after `within`."""
        damage: str | None = self._ask({"op": "damage"}, within)["damage"]
        return damage

    def close(self) -> None:
        """Close the connections. The client can still be used, and reconnects."""
        while self._idle:
            self._idle.pop().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, request: dict[str, Any], within: float | None = None) -> dict[str, Any]:
        """Send a request and return its answer. All requests are idempotent, so one that fails is retried."""
        line = json.dumps({**request, "token": self._token}).encode() + b"\n"
        deadline = time.monotonic() + (self._timeout if within is None else within)
        backoff = Backoff(0.05, longest=1.0)
        while True:
            try:
                return self._ask_once(line, _ANSWER_SECONDS if within is None else within)
            except (OSError, ValueError) as error:
                if time.monotonic() + backoff.pause > deadline:
                    raise IngressUnavailableError(
                        f"The process that accepts connections does not answer on {self._control_path} "
                        f"({error}). It is not running, or it belongs to another start of the application."
                    ) from error
            time.sleep(backoff.next())

    def _ask_once(self, line: bytes, seconds: float) -> dict[str, Any]:
        connection = self._connection()
        try:
            connection.settimeout(seconds)
            connection.sendall(line)
            answer = _read_line(connection)
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        found: dict[str, Any] = json.loads(answer)
        return found

    def _connection(self) -> socket.socket:
        """Return an idle connection: each request in flight has its own."""
        if self._owner != os.getpid():
            # A fork shares its parent's connections, and would get the answers to the parent's requests.
            self.close()
            self._owner = os.getpid()
        with suppress(IndexError):
            return self._idle.pop()
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(self._control_path)
        except BaseException:
            connection.close()
            raise
        return connection


def _make_client(control_path: str, token: str, timeout: float) -> IngressClient:
    return IngressClient(control_path, token, timeout=timeout)


def _read_line(connection: socket.socket) -> bytes:
    pieces: list[bytes] = []
    while not pieces or not pieces[-1].endswith(b"\n"):
        piece = connection.recv(1 << 16)
        if not piece:
            raise ConnectionError("it closed the connection")
        pieces.append(piece)
    return b"".join(pieces)
