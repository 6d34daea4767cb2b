"""What is looked at before anything is started, so that what cannot work is said at once."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Iterator

from wallaroo.api.configs import TCPSinkConfig
from wallaroo.engine.spark.memory import check_memory
from wallaroo.engine.spark.session import DRIVER_MEMORY, SparkOptions
from wallaroo.errors import AddressError, SparkStartError
from wallaroo.topology.model import Pipeline

_PATIENCE_SECONDS = 5.0


def check_before_start(pipelines: Iterable[Pipeline], spark: SparkOptions) -> None:
    """Refuse what can be known not to work."""
    check_receivers(pipelines)
    check_memory(spark.conf.get("spark.driver.memory", DRIVER_MEMORY))
    check_master(spark.master)


def check_receivers(pipelines: Iterable[Pipeline]) -> None:
    """Refuse receivers that cannot be: one that is only not there yet is waited for, an unknown name is a mistake."""
    for pipeline in pipelines:
        for sink in pipeline.sinks:
            if isinstance(sink, TCPSinkConfig):
                _check_receiver(pipeline.name, *sink.address)


def _check_receiver(pipeline: str, host: str, port: int) -> None:
    problem = f"Pipeline {pipeline!r} cannot send to {host}:{port}: "
    if port == 0:
        raise AddressError(f"{problem}a receiver has a port of its own. Give the one that it listens on.")
    if (why := _unknown(host)) is not None:
        raise AddressError(f"{problem}the name {host!r} is not known ({why}). Give the receiver's name or address.")


def _unknown(host: str) -> str | None:
    """Return why there is no machine of this name, None if there is one or if that cannot be said now."""
    try:
        socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except UnicodeError:
        return "no machine can have it"
    except socket.gaierror as error:
        # A name server that does not answer may do so later, when the connection is made.
        return None if error.errno == socket.EAI_AGAIN else str(error.strerror).lower()
    return None


def check_master(url: str) -> None:
    """Refuse a master of a Spark cluster at which nobody answers; Spark itself tries for a minute, and says little."""
    failures = []
    for host, port in _masters(url):
        try:
            socket.create_connection((host, port), _PATIENCE_SECONDS).close()
        except (OSError, UnicodeError, OverflowError) as error:
            failures.append(f"{host}:{port}: {(getattr(error, 'strerror', None) or str(error)).lower()}")
        else:
            return
    if failures:
        raise SparkStartError(
            f"No Spark master answers at {url} ({'; '.join(failures)}). Start it, or check what --master says."
        )


def _masters(url: str) -> Iterator[tuple[str, int]]:
    """Yield the addresses of a standalone cluster's masters; other kinds of clusters are Spark's to find.

    >>> list(_masters("spark://one:7077,[::1]:7078")), list(_masters("local[*]"))
    ([('one', 7077), ('::1', 7078)], [])
    """
    if url.startswith("spark://"):
        for host, port in re.findall(r"([^,]+):(\d+)", url.removeprefix("spark://")):
            yield host.strip("[]"), int(port)
