"""How much memory there is for Spark, on this machine or in the container around us."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from wallaroo.errors import SparkStartError
from wallaroo.sizes import parse_size, readable_size

LEAST = 450 << 20
"""With less than this Spark refuses to start."""


def check_memory(wanted: str) -> None:
    """Refuse a heap for Spark's JVM (`spark.driver.memory`, as in "1g") that is too small for Spark or too large here.

    The JVM itself would start and, once it uses what it was given, be killed without a word.
    """
    heap, there = parse_size(wanted), available() >> 20 << 20
    if heap < LEAST:
        raise SparkStartError(
            f"spark.driver.memory={wanted} is too little: Spark needs {readable_size(LEAST)} at the least. "
            "Leave it out, or write more."
        )
    if heap >= there:
        raise SparkStartError(
            f"There is too little memory: Spark is to get {readable_size(heap)} (spark.driver.memory), and this "
            f"machine or container has {readable_size(there)}. Give Spark less, for example --spark-conf "
            "spark.driver.memory=512m, or the machine more."
        )


def available(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the bytes of memory that processes started here may use."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([machine, *_limits(proc / "self" / "cgroup", groups)])


def _limits(own: Path, groups: Path) -> Iterator[int]:
    """Yield the limits of the control groups around this process, of both versions; none but on Linux."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield from _limits_above(groups, path, "memory.max")
        elif "memory" in controllers.split(","):
            yield from _limits_above(groups / "memory", path, "memory.limit_in_bytes")


def _limits_above(root: Path, path: str, file: str) -> Iterator[int]:
    # Inside a container the path may be that of the host, of which only the root is to be seen.
    inner = root / path.strip("/")
    for group in (inner, *inner.parents):
        try:
            text = (group / file).read_text().strip()
        except OSError:
            text = ""
        if text.isdigit():  # "max" where there is no limit.
            yield int(text)
        if group == root:
            return
