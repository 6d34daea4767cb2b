"""What the system knows of a connection: how much the other machine has acknowledged, and whether it broke."""

from __future__ import annotations

import fcntl
import socket
import struct
import sys

_UNSENT_BYTES_REQUEST = 0x5411  # SIOCOUTQ


def unacknowledged(connection: socket.socket) -> int:
    """Return how many bytes of what was sent the receiver's machine has not acknowledged.

    Where the system does not tell, none: what it has taken counts as sent.
    """
    if not sys.platform.startswith("linux"):
        return 0
    answer = fcntl.ioctl(connection.fileno(), _UNSENT_BYTES_REQUEST, struct.pack("i", 0))
    number: int = struct.unpack("i", answer)[0]
    return number


def raise_if_broken(connection: socket.socket) -> None:
    """Raise the error with which the connection broke, if it did."""
    error = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if error:
        raise OSError(error, "the connection broke")
