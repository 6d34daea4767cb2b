"""Checks before anything is started, so that configurations that cannot work are reported immediately."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from wallaroo.connectors.registry import sink_kind, source_kind
from wallaroo.engine.spark.memory import check_memory
from wallaroo.engine.spark.query import ON_A_CLUSTER, ON_ONE_MACHINE, REAL_TIME
from wallaroo.engine.spark.session import DRIVER_MEMORY, SparkOptions
from wallaroo.errors import SparkStartError
from wallaroo.topology.model import Pipeline

_TIMEOUT_SECONDS = 5.0


def check_before_start(pipelines: Iterable[Pipeline], spark: SparkOptions) -> None:
    """Refuse what is known not to work."""
    check_connectors(pipelines)
    check_memory(spark.conf.get("spark.driver.memory", DRIVER_MEMORY))
    check_settings(spark.conf)
    check_master(spark.master)


def check_settings(conf: Mapping[str, str]) -> None:
    """Refuse Spark settings that would delay messages or lose them.

    >>> check_settings({"spark.task.maxFailures": "4"})
    Traceback (most recent call last):
        ...
    wallaroo.errors.SparkStartError: --spark-conf spark.task.maxFailures cannot be set: messages are processed as ...
    """
    if "spark.master" in conf:
        raise SparkStartError(f"--spark-conf spark.master: write --master {conf['spark.master']} instead.")
    if taken := sorted(conf.keys() & (REAL_TIME | ON_ONE_MACHINE | ON_A_CLUSTER).keys()):
        raise SparkStartError(
            f"--spark-conf {taken[0]} cannot be set: messages are processed as they arrive only with the "
            "value that Wallaroo sets. Leave it out."
        )


def check_connectors(pipelines: Iterable[Pipeline]) -> None:
    """Refuse sources and sinks that cannot work; a receiver that is only not up yet is not an error."""
    for pipeline in pipelines:
        source_kind(pipeline.source).preflight(pipeline.name, pipeline.source)
        for sink in pipeline.sinks:
            sink_kind(sink).preflight(pipeline.name, sink)


def check_master(url: str) -> None:
    """Refuse a Spark master that does not answer; Spark itself would retry for a minute, with an unclear message."""
    failures = []
    for host, port in _masters(url):
        try:
            socket.create_connection((host, port), _TIMEOUT_SECONDS).close()
        except (OSError, UnicodeError, OverflowError) as error:
            failures.append(f"{host}:{port}: {(getattr(error, 'strerror', None) or str(error)).lower()}")
        else:
            return
    if failures:
        raise SparkStartError(f"No Spark master answers at {url} ({'; '.join(failures)}). Start it, or check --master.")


def _masters(url: str) -> Iterator[tuple[str, int]]:
    """Yield the addresses of a standalone cluster's masters; other kinds of clusters are left to Spark.

    >>> list(_masters("spark://one:7077,[::1]:7078")), list(_masters("local[*]"))
    ([('one', 7077), ('::1', 7078)], [])
    """
    if url.startswith("spark://"):
        for host, port in re.findall(r"([^,]+):(\d+)", url.removeprefix("spark://")):
            yield host.strip("[]"), int(port)


SPARK = "4.3"
"""The version of Spark that this release needs: its streaming internals change with every version."""

_NEEDED = ("pyspark", "py4j", "pyarrow", "pandas")


def check_packages() -> None:
    """Refuse an installation that cannot run an application."""
    for package in _NEEDED:
        if _place(package) is None:
            raise SparkStartError(
                f"The package {package} is not installed in this Python. Run: pip install --force-reinstall "
                "wallaroo-spark, which installs everything that is needed."
            )
    if not _is_ours(found := _pyspark_version()):
        raise SparkStartError(
            f"pyspark {found} is installed, and this release needs {SPARK}. Run: pip install 'pyspark=={SPARK}.*'"
        )
    if home := os.environ.get("SPARK_HOME"):
        _check_spark_home(Path(home))


def _place(module: str) -> str | None:
    """Return the file of a module, None if there is no such module."""
    spec = find_spec(module)
    return None if spec is None else spec.origin


def _pyspark_version() -> str:
    # Not by importing it: a version that is too old may not even be importable here.
    text = Path(_place("pyspark") or "").with_name("version.py").read_text()
    found = re.search(r"""^__version__.*?["']([^"']+)""", text, re.MULTILINE)
    return found[1] if found else "of an unknown version"


def _check_spark_home(home: Path) -> None:
    """Refuse a SPARK_HOME with a different version of Spark, which pyspark would start."""
    way_out = "Unset SPARK_HOME: pyspark brings a Spark of its own."
    found = re.search(r"spark-core_[\d.]+-(\d[\w.]*)\.jar", " ".join(path.name for path in home.glob("jars/*.jar")))
    if found is None:
        raise SparkStartError(f"There is no Spark in {home}, which SPARK_HOME names. {way_out}")
    if not _is_ours(found[1]):
        raise SparkStartError(f"SPARK_HOME names Spark {found[1]}, and this release needs {SPARK}. {way_out}")


def _is_ours(version: str) -> bool:
    return version == SPARK or version.startswith(f"{SPARK}.")
