"""Configs with an address: of a source that listens, or of a receiver that a sink connects to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wallaroo.addresses import Address, port_number, unknown_host
from wallaroo.errors import AddressError, WallarooParameterError
from wallaroo.introspection import a_kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(eq=False)
class AddressConfig:
    """The base of configs with an address, which is stored as it is given."""

    host: str
    port: str | int

    @property
    def address(self) -> tuple[str, int]:
        """The host, and the port as a number."""
        return self.host, port_number(self.port)


def address_mistakes(config: AddressConfig, role: str) -> Iterator[str]:
    """Check the address.

    >>> list(address_mistakes(AddressConfig("127.0.0.1", "x"), "sink"))
    ["sink: the port must be a number from 0 to 65535; got 'x' (a str)"]
    """
    host: Any = config.host
    if not (isinstance(host, str) and host):
        yield f"the host of the {role} must be a string such as '127.0.0.1'; got {a_kind_of(host)}"
    try:
        port_number(config.port)
    except WallarooParameterError as error:
        yield f"{role}: {error}"


def shown_address(transport: str, config: AddressConfig) -> str:
    """Return the address as a line of the drawing.

    >>> shown_address("TCP", AddressConfig("::1", 7010))
    'TCP [::1]:7010'
    """
    return f"{transport} {Address(*config.address)}"


def check_receiver(pipeline: str, config: AddressConfig) -> None:
    """Refuse an address that no receiver can have.

    Raises:
        AddressError: It is not possible to listen there.
    """
    host, port = config.address
    problem = f"Pipeline {pipeline!r} cannot send to {host}:{port}: "
    if port == 0:
        raise AddressError(f"{problem}a receiver has a port of its own. Give the one that it listens on.")
    if (why := unknown_host(host)) is not None:
        raise AddressError(f"{problem}the name {host!r} is not known ({why}). Give the receiver's name or address.")
