"""What is looked at before anything is started, so that what cannot work is said at once."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Iterator, Mapping

from wallaroo.connectors.kinds import sink_kind, source_kind
from wallaroo.engine.spark.memory import check_memory
from wallaroo.engine.spark.real_time import ON_A_CLUSTER, ON_ONE_MACHINE, REAL_TIME
from wallaroo.engine.spark.session import DRIVER_MEMORY, SparkOptions
from wallaroo.errors import SparkStartError
from wallaroo.topology.model import Pipeline

_PATIENCE_SECONDS = 5.0


def check_before_start(pipelines: Iterable[Pipeline], spark: SparkOptions) -> None:
    """Refuse what can be known not to work."""
    check_connectors(pipelines)
    check_memory(spark.conf.get("spark.driver.memory", DRIVER_MEMORY))
    check_settings(spark.conf)
    check_master(spark.master)


def check_settings(conf: Mapping[str, str]) -> None:
    """Refuse settings of Spark's without which messages would wait, or be lost on their way.

    >>> check_settings({"spark.task.maxFailures": "4"})
    Traceback (most recent call last):
        ...
    wallaroo.errors.SparkStartError: --spark-conf spark.task.maxFailures cannot be chosen: messages are processed as ...
    """
    if "spark.master" in conf:
        raise SparkStartError(f"--spark-conf spark.master: write --master {conf['spark.master']} instead.")
    if taken := sorted(conf.keys() & (REAL_TIME | ON_ONE_MACHINE | ON_A_CLUSTER).keys()):
        raise SparkStartError(
            f"--spark-conf {taken[0]} cannot be chosen: messages are processed as they arrive only with the value that "
            "it has here. Leave it out."
        )


def check_connectors(pipelines: Iterable[Pipeline]) -> None:
    """Refuse sources and sinks that cannot work: a receiver that is only not there yet is waited for."""
    for pipeline in pipelines:
        source_kind(pipeline.source).preflight(pipeline.name, pipeline.source)
        for sink in pipeline.sinks:
            sink_kind(sink).preflight(pipeline.name, sink)


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
