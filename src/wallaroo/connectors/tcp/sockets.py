"""TCP sockets: listening sockets for senders, connections to receivers, and their state in the kernel."""

from __future__ import annotations

import errno
import fcntl
import socket
import struct
import sys

from wallaroo.errors import AddressError
from wallaroo.internal_sockets import enable_keepalive


def open_sockets(pipeline: str, host: str, port: int) -> list[socket.socket]:
    """Return bound sockets for the address of a pipeline's source, the primary one first; they do not listen yet.

    A name such as "localhost" may resolve to several addresses. All of them get the same port, and those that this
    machine does not have are skipped as long as one remains.
    """
    problem = f"Pipeline {pipeline!r} cannot listen on {host}:{port}: "
    if not 0 <= port <= 65535:
        raise AddressError(f"{problem}a port is a number from 0 to 65535.")
    opened: list[socket.socket] = []
    wanted = port
    try:
        for family, address in _addresses(host, port, problem):
            try:
                opened.append(_bind(family, (address, wanted)))
            except OSError as error:
                if opened and (port == 0 or error.errno != errno.EADDRINUSE):
                    continue
                raise AddressError(problem + _explain(error)) from error
            wanted = opened[0].getsockname()[1]
    except BaseException:
        for sock in opened:
            sock.close()
        raise
    return opened


def _addresses(host: str, port: int, problem: str) -> list[tuple[int, str]]:
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise AddressError(
            f"{problem}the name {host!r} is not known ({error}). Give an address of this machine, such as 127.0.0.1."
        ) from error
    # Senders use IPv4 by default, so it is the primary one.
    ordered = sorted(found, key=lambda entry: entry[0] != socket.AF_INET)
    return list(dict.fromkeys((int(entry[0]), str(entry[4][0])) for entry in ordered))


def _bind(family: int, address: tuple[str, int]) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        enable_keepalive(sock)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
    except BaseException:
        sock.close()
        raise
    return sock


def _explain(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            "another program already uses that port. Stop that program (perhaps this application is already "
            "running), or give the pipeline another port."
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return (
            "this machine does not have that address. Use one that it has: 127.0.0.1 for senders on this "
            "machine, 0.0.0.0 for senders anywhere."
        )
    if error.errno == errno.EACCES:
        return "only the system's administrator may use ports below 1024. Use a higher one."
    return f"{error.strerror}."


_UNSENT_BYTES_REQUEST = 0x5411  # SIOCOUTQ


def unacknowledged(connection: socket.socket) -> int:
    """Return how many of the sent bytes the receiver's machine has not acknowledged.

    Return 0 where the system does not provide it: what the kernel has accepted then counts as sent.
    """
    if not sys.platform.startswith("linux"):
        return 0
    answer = fcntl.ioctl(connection.fileno(), _UNSENT_BYTES_REQUEST, struct.pack("i", 0))
    number: int = struct.unpack("i", answer)[0]
    return number


def raise_if_broken(connection: socket.socket) -> None:
    """Raise the pending error of the connection, if it has broken."""
    error = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if error:
        raise OSError(error, "the connection broke")


def dial(address: tuple[str, int], timeout: float) -> socket.socket:
    """Return a new connection to `address`, which sends data immediately; `timeout` applies to all its operations.

    Raises:
        OSError: The receiver could not be reached.
    """
    connection = socket.create_connection(address, timeout=timeout)
    # If nothing listens on a port of the ephemeral range, Linux can connect a socket to itself.
    if connection.getsockname() == connection.getpeername():
        connection.close()
        raise ConnectionRefusedError(111, "Connection refused")
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    enable_keepalive(connection)
    return connection
