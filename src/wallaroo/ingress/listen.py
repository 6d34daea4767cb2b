"""Opens the sockets that senders connect to."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

from wallaroo.errors import AddressError
from wallaroo.keepalive import notice_dead_peers

if TYPE_CHECKING:
    from wallaroo.ingress.config import SourceEndpoint


def open_sockets(endpoint: SourceEndpoint) -> list[socket.socket]:
    """Return bound sockets for an endpoint, the principal one first; they do not listen yet.

    A name such as "localhost" may stand for several addresses. All of them get the same port, and those that
    this machine does not have are left out as long as one remains.
    """
    if not 0 <= endpoint.port <= 65535:
        raise AddressError(_problem(endpoint) + "a port is a number from 0 to 65535.")
    opened: list[socket.socket] = []
    port = endpoint.port
    try:
        for family, address in _addresses(endpoint):
            try:
                opened.append(_bind(family, (address, port)))
            except OSError as error:
                if opened and (endpoint.port == 0 or error.errno != errno.EADDRINUSE):
                    continue
                raise AddressError(_explain(endpoint, error)) from error
            port = opened[0].getsockname()[1]
    except BaseException:
        for sock in opened:
            sock.close()
        raise
    return opened


def _addresses(endpoint: SourceEndpoint) -> list[tuple[int, str]]:
    try:
        found = socket.getaddrinfo(
            endpoint.host or None, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError) as error:
        raise AddressError(
            f"{_problem(endpoint)}the name {endpoint.host!r} is not known ({error}). Give an address "
            f"of this machine, such as 127.0.0.1."
        ) from error
    # Senders that do not say otherwise use the older protocol.
    ordered = sorted(found, key=lambda entry: entry[0] != socket.AF_INET)
    return list(dict.fromkeys((int(entry[0]), str(entry[4][0])) for entry in ordered))


def _bind(family: int, address: tuple[str, int]) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        notice_dead_peers(sock)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
    except BaseException:
        sock.close()
        raise
    return sock


def _problem(endpoint: SourceEndpoint) -> str:
    return f"Pipeline {endpoint.name!r} cannot listen on {endpoint.host}:{endpoint.port}: "


def _explain(endpoint: SourceEndpoint, error: OSError) -> str:
    problem = _problem(endpoint)
    if error.errno == errno.EADDRINUSE:
        return problem + (
            "another program already uses that port. Stop that program (perhaps this application is already "
            "running), or give the pipeline another port."
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return problem + (
            "this machine does not have that address. Use one that it has: 127.0.0.1 for senders on this "
            "machine, 0.0.0.0 for senders anywhere."
        )
    if error.errno == errno.EACCES:
        return problem + "only the system's administrator may use ports below 1024. Use a higher one."
    return problem + f"{error.strerror}."
