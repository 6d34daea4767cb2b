"""Connections between the processes of one run: Unix sockets on one machine, TCP between the machines of a cluster.

An address is a path, which starts with a slash, or a host and a port: `/tmp/x/outputs`, `10.0.0.5:40123`. A client
sends a token first. The time and the number of bytes that an unauthenticated client has for it are limited.
"""

from __future__ import annotations

import os
import socket
import time

from wallaroo.addresses import parse_address

HELLO_TIMEOUT_SECONDS = 10.0
"""How long a client may take to authenticate after it has connected."""
MAX_UNAUTHENTICATED = 256
"""How many connections may be unauthenticated; beyond that the oldest of them is closed."""

_DIAL_SECONDS = 30.0
_BACKLOG = 256
_PRIVATE_UMASK = 0o177


def dial(address: str) -> socket.socket:
    """Return a connection to `address` that sends written data immediately."""
    if not address.startswith("/"):
        connection = socket.create_connection(parse_address(address), _DIAL_SECONDS)
        connection.settimeout(None)
        set_no_delay(connection)
        return connection
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(address)
    except BaseException:
        connection.close()
        raise
    return connection


def listen(address: str) -> socket.socket:
    """Return a socket that listens on `address`: a path is accessible to this user only, port 0 means any free port."""
    if not address.startswith("/"):
        host, port = parse_address(address)
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        enable_keepalive(listener)
        return listener
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    previous = os.umask(_PRIVATE_UMASK)
    try:
        listener.bind(address)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    finally:
        os.umask(previous)
    return listener


def set_no_delay(connection: socket.socket) -> None:
    """Disable Nagle's algorithm, which delays small writes until earlier data is acknowledged."""
    if connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        enable_keepalive(connection)


def receive_exactly(connection: socket.socket, size: int, deadline: float) -> bytes:
    """Return the next `size` bytes.

    Raises:
        OSError: They did not arrive before `deadline`, or the connection was closed.
    """
    received = bytearray()
    while len(received) < size:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("nothing was received in time")
        connection.settimeout(left)
        piece = connection.recv(size - len(received))
        if not piece:
            raise ConnectionError("the other side has closed the connection")
        received += piece
    return bytes(received)


_KEEPALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 6}
"""Send the first probe after an idle minute, then one every ten seconds; give up after six without an answer."""


def enable_keepalive(sock: socket.socket) -> None:
    """Enable TCP keepalive probes.

    A connection may be idle for hours; without probes, one to a machine that is gone would stay open forever. Accepted
    connections inherit the setting from the listening socket.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE.items():
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
