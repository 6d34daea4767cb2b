"""Where the workers of a cluster find this machine."""

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
    """The address to listen on, and the one by which workers come there; they differ behind a network's gateway."""

    bind: str
    told: str


def reach(spark: SparkOptions) -> DriverAddress:
    """Return where to wait for the workers of a cluster: where the user says, or on the way to the master.

    A machine has other addresses, too. Nobody is to get in by those.
    """
    told = spark.conf.get(_HOST)
    bind = spark.conf.get(_BIND) or told or _address_towards(spark.master)
    if told is None:
        told = _address_towards(spark.master) if _is_any(bind) else bind
    return DriverAddress(bind, told)


def _is_any(address: str) -> bool:
    """Tell whether an address stands for all that the machine has.

    >>> _is_any("0.0.0.0"), _is_any("10.0.0.5"), _is_any("host")
    (True, False, False)
    """
    try:
        return ipaddress.ip_address(address).is_unspecified
    except ValueError:
        return False


def _address_towards(master: str) -> str:
    """Return the address by which this machine reaches the master.

    >>> _address_towards("spark://127.0.0.1:7077,elsewhere:7077")
    '127.0.0.1'
    """
    found = re.search(r"//(?:\[([^\]]+)\]|([^:,/]+)):(\d+)", master)
    try:
        if found is None:  # A cluster that is not known by an address, such as YARN.
            return str(socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)[0][4][0])
        host, port = found[1] or found[2], int(found[3])
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as way:
            way.connect(address)  # Sends nothing, but finds the way.
            return str(way.getsockname()[0])
    except OSError as error:
        raise AddressError(
            f"It is not known by which address the workers of {master} reach this machine ({error.strerror or error}). "
            f"Say it: --spark-conf {_HOST}=ADDRESS."
        ) from error
