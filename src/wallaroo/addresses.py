"""Hosts and ports as users write them."""

from __future__ import annotations

from typing import Any

from wallaroo.errors import WallarooParameterError
from wallaroo.introspection import a_kind_of

_HIGHEST_PORT = 65535
_EVERY_INTERFACE = frozenset({"0.0.0.0", "::", "*"})  # noqa: S104 - compared with, never bound to


def port_number(port: Any) -> int:
    """Return a port, given as a number or as a string, as a number.

    >>> port_number("7010")
    7010
    >>> port_number("seven")
    Traceback (most recent call last):
    wallaroo.errors.WallarooParameterError: the port must be a number from 0 to 65535; got 'seven' (a str)
    """
    if isinstance(port, str) and port.isascii() and port.isdigit():
        number = int(port)
    elif isinstance(port, int) and not isinstance(port, bool):
        number = port
    else:
        number = -1
    if not 0 <= number <= _HIGHEST_PORT:
        raise WallarooParameterError(f"the port must be a number from 0 to {_HIGHEST_PORT}; got {a_kind_of(port)}")
    return number


def unknown_host(host: str) -> str | None:
    """Return why a host name cannot be resolved, None if it can, or if that cannot be determined now."""
    import socket  # noqa: PLC0415 - not needed to build an application.

    try:
        socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except UnicodeError:
        return "no machine can have it"
    except socket.gaierror as error:
        # A name server that does not answer now may answer later, when a connection is made.
        return None if error.errno == socket.EAI_AGAIN else str(error.strerror).lower()
    return None


def clash(one: tuple[str, int], other: tuple[str, int]) -> bool:
    """Return whether two sources cannot listen on these two addresses at the same time.

    Port 0 lets the system pick a free port, so it never clashes.

    >>> clash(("127.0.0.1", 7010), ("localhost", 7010)), clash(("127.0.0.1", 7010), ("127.0.0.1", 7011))
    (True, False)
    >>> clash(("0.0.0.0", 7010), ("10.0.0.5", 7010)), clash(("127.0.0.1", 0), ("127.0.0.1", 0))
    (True, False)
    """
    if one[1] != other[1] or one[1] == 0:
        return False
    hosts = {_plain_host(one[0]), _plain_host(other[0])}
    return len(hosts) == 1 or bool(hosts & _EVERY_INTERFACE)


def _plain_host(host: str) -> str:
    lowered = host.lower()
    return "127.0.0.1" if lowered == "localhost" else lowered
