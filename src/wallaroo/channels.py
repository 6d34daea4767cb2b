"""Lines between the processes of one run: Unix sockets on one machine, TCP between the machines of a cluster.

An address is a path, which begins with a slash, or a host and a port: `/tmp/x/outputs`, `10.0.0.5:40123`. Whoever dials
says a token first. A stranger has only so much time and so many bytes for it.
"""

from __future__ import annotations

import os
import socket
import time

HELLO_SECONDS = 10.0
"""How long somebody who has connected may take to say who it is."""
MOST_STRANGERS = 256
"""How many may be connected without having said who they are; the one that has taken longest makes room."""

_DIAL_SECONDS = 30.0
_BACKLOG = 256
_OTHERS = 0o177


def host_and_port(address: str) -> tuple[str, int]:
    """Return the two parts of an address.

    >>> host_and_port("10.0.0.5:4000"), host_and_port("[::1]:4000")
    (('10.0.0.5', 4000), ('::1', 4000))
    """
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def joined(host: str, port: int) -> str:
    """Return the address that a host and a port make.

    >>> joined("10.0.0.5", 4000), joined("::1", 4000)
    ('10.0.0.5:4000', '[::1]:4000')
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def dial(address: str) -> socket.socket:
    """Return a connection to `address`; what is written to it goes out at once."""
    if not address.startswith("/"):
        connection = socket.create_connection(host_and_port(address), _DIAL_SECONDS)
        connection.settimeout(None)
        without_delay(connection)
        return connection
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(address)
    except BaseException:
        connection.close()
        raise
    return connection


def listen(address: str) -> socket.socket:
    """Return a socket that listens on `address`: on a path, for this user only; on the port 0, on any free one."""
    if not address.startswith("/"):
        host, port = host_and_port(address)
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        notice_dead_peers(listener)
        return listener
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    previous = os.umask(_OTHERS)
    try:
        listener.bind(address)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    finally:
        os.umask(previous)
    return listener


def without_delay(connection: socket.socket) -> None:
    """Have the system send what is written at once; it would hold back what is small until the rest has arrived."""
    if connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        notice_dead_peers(connection)


def receive_exactly(connection: socket.socket, size: int, deadline: float) -> bytes:
    """Return the next `size` bytes.

    Raises:
        OSError: They have not come before `deadline`, or never will.
    """
    received = bytearray()
    while len(received) < size:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("nothing came in time")
        connection.settimeout(left)
        piece = connection.recv(size - len(received))
        if not piece:
            raise ConnectionError("the other side has closed the connection")
        received += piece
    return bytes(received)


_QUESTIONS = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 6}
"""Ask after a minute of silence, every ten seconds, and give up after six questions without an answer."""


def notice_dead_peers(sock: socket.socket) -> None:
    """Have the system ask, while a connection is silent, whether the other machine is still there.

    A connection may be silent for hours; without this, one to a machine that is gone would stay for ever. Connections
    inherit it from a socket that listens.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _QUESTIONS.items():
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
