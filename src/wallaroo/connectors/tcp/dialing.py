"""Connecting to an address, once."""

from __future__ import annotations

import socket

from wallaroo.keepalive import notice_dead_peers


def dial(address: tuple[str, int], timeout: float) -> socket.socket:
    """Return a new connection to `address`, which sends what it is given at once; `timeout` is its timeout from now on.

    Raises:
        OSError: Nobody could be reached.
    """
    connection = socket.create_connection(address, timeout=timeout)
    # Where nobody listens on a port that outgoing connections may get, Linux can connect a socket to itself.
    if connection.getsockname() == connection.getpeername():
        connection.close()
        raise ConnectionRefusedError(111, "Connection refused")
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    notice_dead_peers(connection)
    return connection
