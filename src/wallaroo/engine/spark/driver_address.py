"""The address at which the workers of a cluster connect to this machine."""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import NamedTuple

from wallaroo.engine.spark.session import SparkOptions
from wallaroo.errors import AddressError

_BIND = "spark.driver.bindAddress"
_HOST = "spark.driver.host"


class DriverAddress(NamedTuple):
    """The address to listen on, and the one that workers connect to; they differ behind network address translation."""

    bind: str
    advertised: str


def driver_address(spark: SparkOptions) -> DriverAddress:
    """Return where to listen for the workers of a cluster: as configured, or on the interface towards the master.

    The other interfaces of the machine stay closed.
    """
    advertised = spark.conf.get(_HOST)
    bind = spark.conf.get(_BIND) or advertised or _address_towards(spark.master)
    if advertised is None:
        advertised = _address_towards(spark.master) if _is_any(bind) else bind
    return DriverAddress(bind, advertised)


def _is_any(address: str) -> bool:
    """Return whether an address stands for all interfaces.

    >>> _is_any("0.0.0.0"), _is_any("10.0.0.5"), _is_any("host")
    (True, False, False)
    """
    try:
        return ipaddress.ip_address(address).is_unspecified
    except ValueError:
        return False


def _address_towards(master: str) -> str:
    """Return the local address of the route to the master.

    >>> _address_towards("spark://127.0.0.1:7077,elsewhere:7077")
    '127.0.0.1'
    """
    found = re.search(r"//(?:\[([^\]]+)\]|([^:,/]+)):(\d+)", master)
    try:
        if found is None:  # A cluster without an address in its URL, such as YARN.
            return str(socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)[0][4][0])
        host, port = found[1] or found[2], int(found[3])
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as way:
            way.connect(address)  # Sends nothing, but selects the route.
            return str(way.getsockname()[0])
    except OSError as error:
        raise AddressError(
            f"The address at which the workers of {master} reach this machine is not known "
            f"({error.strerror or error}). Set it: --spark-conf {_HOST}=ADDRESS."
        ) from error
