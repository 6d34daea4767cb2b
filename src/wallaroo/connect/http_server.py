"""An HTTP server that gives the bodies of requests (POST) to a function, and bounds what strangers can do to it."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from contextlib import nullcontext, suppress
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from threading import BoundedSemaphore
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from wallaroo.addresses import Address
from wallaroo.connect.script import listening_on

_LARGEST = 16 << 20
_LARGE, _MOST_LARGE = 64 << 10, 2
"""How many bytes are much, and how many requests may have so many at the same time."""
_REQUEST_SECONDS = 60
_MOST_CONNECTIONS = 100
_LOOK_SECONDS = 0.5

Answer = tuple[HTTPStatus, str]
Take = Callable[[Message, bytes], Answer]
"""Takes the headers and the body of a request, and returns the answer."""


class Server(ThreadingHTTPServer):
    """A server with a thread for each connection, up to a number of them; more have to wait.

    `check` is called again and again: what it raises ends the server.
    """

    daemon_threads = True

    def __init__(self, listen: Address, take: Take, check: Callable[[], None]) -> None:
        self.take = take
        self.check = check
        self.names = {"localhost", socket.gethostname().lower(), listen.host.lower()}
        self.large = BoundedSemaphore(_MOST_LARGE)
        self.deadlines: dict[socket.socket, float] = {}
        self.is_closed = False
        self._room = BoundedSemaphore(_MOST_CONNECTIONS)
        self.address_family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
        with listening_on(listen):
            super().__init__(listen, _Handler)

    def service_actions(self) -> None:
        """Look whether something is over; this is called again and again."""
        self.check()
        self._end_late()

    def server_close(self) -> None:
        """Take nothing more."""
        self.is_closed = True
        super().server_close()

    def process_request(self, *arguments: Any) -> None:
        """Wait until there is room for a connection, and start its thread."""
        while not self._room.acquire(timeout=_LOOK_SECONDS):
            self._end_late()
        super().process_request(*arguments)

    def shutdown_request(self, *arguments: Any) -> None:
        """Close a connection, and leave its place to another."""
        super().shutdown_request(*arguments)
        self._room.release()

    def handle_error(self, *_: object) -> None:
        """Say nothing: a client that breaks its connection is its own affair."""

    def _end_late(self) -> None:
        for connection, deadline in list(self.deadlines.items()):
            if monotonic() > deadline:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    """Answers the requests of a connection."""

    server: Server
    protocol_version = "HTTP/1.1"

    def handle_one_request(self) -> None:
        """Wait for a request and answer it; all of that has a deadline."""
        self.server.deadlines[self.connection] = monotonic() + _REQUEST_SECONDS
        try:
            super().handle_one_request()
        finally:
            del self.server.deadlines[self.connection]

    def do_POST(self) -> None:
        """Take the body."""
        if (refusal := self._refusal()) is not None:
            return self._answer(*refusal)
        length = int(self.headers["Content-Length"])
        with self.server.large if length > _LARGE else nullcontext():
            body = self.rfile.read(length)
            if len(body) < length:
                # The client is gone. Half a message is none: the whole one comes when it tries again.
                self.close_connection = True
                return None
            status, text = self.server.take(self.headers, body)
        if self.server.is_closed and status != HTTPStatus.NO_CONTENT:
            status, text = HTTPStatus.SERVICE_UNAVAILABLE, "the script ends"
        return self._answer(status, text)

    def _refusal(self) -> Answer | None:
        lengths = self.headers.get_all("Content-Length", [])
        # Pages in a browser may send requests to this machine, under a name of their own as well.
        if not self._is_meant() or self.headers.get("Origin") is not None:
            return (
                HTTPStatus.FORBIDDEN,
                "not for web pages: the Host must be an address, or that of --listen",
            )
        if "Transfer-Encoding" in self.headers or len(lengths) != 1 or not re.fullmatch("[0-9]+", lengths[0]):
            return HTTPStatus.LENGTH_REQUIRED, "the request has no Content-Length"
        if len(lengths[0]) > len(str(_LARGEST)) or int(lengths[0]) > _LARGEST:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {_LARGEST:,} bytes"
        return None

    def _is_meant(self) -> bool:
        """Return whether the client has asked for this server, by its name or by any address."""
        try:
            name = urlsplit("//" + self.headers.get("Host", "localhost")).hostname or ""
            return name in self.server.names or ip_address(name) is not None
        except ValueError:
            return False

    def _answer(self, status: HTTPStatus, text: str) -> None:
        self.send_response(status)
        if status != HTTPStatus.NO_CONTENT:
            self.send_header("Content-Length", str(len(text.encode()) + 1))
            # What is left of the request is not read.
            self.send_header("Connection", "close")
        self.end_headers()
        if text:
            self.wfile.write(f"{text}\n".encode())

    def log_message(self, *_: object) -> None:
        """Say nothing: the client has its answer."""
