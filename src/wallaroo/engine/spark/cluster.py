"""A cluster: the address at which its workers connect to this machine, and its task slots."""

from __future__ import annotations

import ipaddress
import re
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from wallaroo.engine.spark.session import SparkOptions
from wallaroo.errors import AddressError, SparkStartError

if TYPE_CHECKING:
    from pyspark import SparkContext


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


_DEFAULT_PROFILE = 0
_POLL_SECONDS = 0.1
_SETTLED_SECONDS = 3.0
"""How long to wait for another executor after the last one has registered, if the number is not known."""
_TIMEOUT_SECONDS = 30.0
"""The same, if there are not enough slots."""
_LONG_TIMEOUT_SECONDS = 120.0
"""The same, if there are none: a busy machine starts executors slowly, and the cluster may be under repair."""


def slots_of(context: SparkContext) -> int:
    """Return how many tasks the registered executors can run at the same time."""
    scheduler = context._jsc.sc().dagScheduler()  # noqa: SLF001 - the only way to it
    return int(scheduler.maxConcurrentTasksForProfile(_DEFAULT_PROFILE))


def free_slots_of(context: SparkContext) -> int:
    """Return how many more tasks they can run."""
    scheduler = context._jsc.sc().dagScheduler()  # noqa: SLF001
    nothing = context._jvm.PythonUtils.toSeq([]).toSet()  # type: ignore[union-attr] # noqa: SLF001
    return slots_of(context) - int(scheduler.outstandingTasksForOtherWork(_DEFAULT_PROFILE, nothing))


def tasks_of_a_stage(slots: Callable[[], int], stages: int, asked: int | None) -> int:
    """Return how many tasks each stage of a query gets, once enough executors have registered.

    `asked` is the number that the user has requested; otherwise all slots of the cluster are used.

    Raises:
        SparkStartError: The cluster does not have enough slots.
    """
    found = wait_for_slots(slots, stages * (asked or 1), more=asked is None)
    fits = found // stages
    if fits < (asked or 1):
        raise SparkStartError(_too_few(found, stages, asked or 1, fits))
    return asked or fits


def tasks_that_fit(slots: Callable[[], int], stages: int, most: int) -> int:
    """Return how many tasks each stage can have, up to `most`, after waiting for restarted executors."""
    return min(wait_for_slots(slots, stages * most) // stages, most)


def wait_for_slots(slots: Callable[[], int], enough: int, *, more: bool = False) -> int:
    """Return the number of slots, once there are enough, or none have been added for a while.

    With `more`, also wait a little for additional slots after that.
    """
    found = 0
    last_came = time.monotonic()
    while True:
        if (now := slots()) > found:
            last_came = time.monotonic()
        found = now
        if found >= enough and not more:
            return found
        if time.monotonic() - last_came > _timeout(found, enough):
            return found
        time.sleep(_POLL_SECONDS)


def _timeout(found: int, enough: int) -> float:
    if found >= enough:
        return _SETTLED_SECONDS
    return _TIMEOUT_SECONDS if found else _LONG_TIMEOUT_SECONDS


def _too_few(found: int, stages: int, tasks: int, fits: int) -> str:
    """Return the message with how many cores are needed, how many there are, and what to do."""
    each = f"{stages} stages, each" if stages > 1 else "one stage"
    workers = f"{tasks} workers" if tasks > 1 else "1 worker"
    way_out = f"start with --worker-count {fits}" if fits else "stop what else runs there"
    return (
        f"The cluster has too few cores: this application needs {stages * tasks} of them at the same time ({each} with "
        f"{workers}), and {found} {'is' if found == 1 else 'are'} available to it. Give the cluster more, or {way_out}."
    )
