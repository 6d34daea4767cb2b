"""Hosts and ports: parsed as users write them, checked, and written as text."""

from __future__ import annotations

from typing import Any, NamedTuple

from wallaroo.errors import WallarooParameterError
from wallaroo.introspection import a_kind_of

_HIGHEST_PORT = 65535
_EVERY_INTERFACE = frozenset({"0.0.0.0", "::", "*"})  # noqa: S104 - compared with, never bound to


class Address(NamedTuple):
    """A host and a port, written `host:port`, or `[host]:port` if the host itself contains colons.

    >>> str(Address("127.0.0.1", 7010)), str(Address("::1", 7010))
    ('127.0.0.1:7010', '[::1]:7010')
    """

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str, default_port: int | None = None) -> Address:
    """Return the address that `text` denotes.

    Raises:
        WallarooParameterError: It is not an address.

    >>> parse_address("127.0.0.1:7010"), parse_address("[::1]", default_port=9092)
    (Address(host='127.0.0.1', port=7010), Address(host='::1', port=9092))
    >>> parse_address("7010")
    Traceback (most recent call last):
    wallaroo.errors.WallarooParameterError: '7010' is not an address: write host:port, such as 127.0.0.1:7010
    """
    host, port = split_address(text, default_port)
    return Address(host, int(port))


def split_address(text: str, default_port: int | None = None) -> tuple[str, str]:
    """Return the host and the port of an address as they are written, without the brackets of an IPv6 address.

    Raises:
        WallarooParameterError: It is not an address.

    >>> split_address("[::1]:07010")
    ('::1', '07010')
    """
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = ("", "") if default_port is None else (text, str(default_port))
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise not_an_address(text, "put the host in brackets, such as [::1]:7010")
    if not host:
        raise not_an_address(text, "write host:port, such as 127.0.0.1:7010")
    try:
        port_number(port)
    except WallarooParameterError as error:
        raise not_an_address(text, str(error)) from error
    return host, port


def not_an_address(text: str, reason: str) -> WallarooParameterError:
    """Return the error for a text that is not an address."""
    return WallarooParameterError(f"{text!r} is not an address: {reason}")


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
        return "it is not a valid name"
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
