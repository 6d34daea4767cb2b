"""Memory: how much there is for Spark, on this machine or in its container, and how large a message may be."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from wallaroo.engine.spark.session import DRIVER_MEMORY, SparkOptions
from wallaroo.errors import SparkStartError
from wallaroo.ingress.limits import Limits
from wallaroo.sizes import parse_size, readable_size

LEAST_MESSAGE = 1 << 20
"""Messages of this size are taken anywhere: where Spark runs at all, they do not matter."""

_MIB = 1 << 20
_TIMES_IN_HEAP = 14
_HEAP_OF_SPARK = 128 << 20
_TIMES_IN_MEMORY = 16
_MEMORY_OF_ALL = 512 << 20
"""What the processes take beyond the JVM's heap, whatever comes."""


def fitting_limits(limits: Limits, spark: SparkOptions, memory: int | None = None) -> Limits:
    """Return the limits as there is memory for them: those that nobody has chosen may be less than usual.

    Raises:
        SparkStartError: More was chosen than there is room for.
    """
    memory = available() if memory is None else memory
    fits = largest_message(spark, memory)
    if limits.max_message_size > fits:
        if "max_message_size" in limits.chosen:
            raise SparkStartError(_too_large(limits.max_message_size, spark, memory, fits))
        limits = replace(limits, max_message_size=fits)
    # A process of its own keeps what has not come completely, whatever Spark's machines have.
    room = max(_whole(memory - _MEMORY_OF_ALL - (_heap(spark) if spark.local else 0) - fits), LEAST_MESSAGE)
    if limits.max_unfinished > room:
        if "max_unfinished" in limits.chosen:
            raise SparkStartError(
                f"--max-unfinished {readable_size(limits.max_unfinished)} is too much: beside Spark, this machine or "
                f"container has room for {readable_size(room)} of unfinished messages. Write that, or less."
            )
        limits = replace(limits, max_unfinished=room)
    return limits


def largest_message(spark: SparkOptions, memory: int) -> int:
    """Return how large a message may be with Spark as it is started, and so much memory in the machine.

    >>> largest_message(SparkOptions(conf={"spark.driver.memory": "2g"}), 8 << 30) >> 20
    137
    """
    rooms = [(_heap(spark) - _HEAP_OF_SPARK) // _TIMES_IN_HEAP]
    if spark.local:
        rooms.append((memory - _heap(spark) - _MEMORY_OF_ALL) // _TIMES_IN_MEMORY)
    return max(_whole(min(rooms)), LEAST_MESSAGE)


def _heap(spark: SparkOptions) -> int:
    """Return the heap of the JVM that has the least."""
    heap = parse_size(spark.conf.get("spark.driver.memory", DRIVER_MEMORY))
    return heap if spark.local else min(heap, parse_size(spark.conf.get("spark.executor.memory", "1g")))


def _too_large(wanted: int, spark: SparkOptions, memory: int, fits: int) -> str:
    """Say what is too much, what would not be, and what else could be changed."""
    problem = (
        f"--max-message-size {readable_size(wanted)} is too much: there is room for messages of up to "
        f"{readable_size(fits)}. Write that, or less"
    )
    heap = max(_whole(_HEAP_OF_SPARK + _TIMES_IN_HEAP * wanted + _MIB - 1), _heap(spark))
    more = f"--spark-conf spark.driver.memory={heap // _MIB}m"
    if not spark.local:
        return f"{problem}; or give Spark more: {more} --spark-conf spark.executor.memory={heap // _MIB}m."
    needed = heap + _MEMORY_OF_ALL + _TIMES_IN_MEMORY * wanted
    if needed <= memory:
        return f"{problem}; or give Spark more: {more}."
    return (
        f"{problem}. For messages of that size, Spark needs {readable_size(heap)} (spark.driver.memory), and all "
        f"processes together {readable_size(needed)}; this machine or container has {readable_size(_whole(memory))}."
    )


def _whole(size: int) -> int:
    """Return a size without the last part of a MiB."""
    return size // _MIB * _MIB


LEAST_HEAP = 450 << 20
"""With less than this Spark refuses to start."""


def check_memory(wanted: str) -> None:
    """Refuse a heap for Spark's JVM (`spark.driver.memory`, as in "1g") that is too small for Spark or too large here.

    The JVM itself would start and, once it uses what it was given, be killed without a word.
    """
    heap, there = parse_size(wanted), available() >> 20 << 20
    if heap < LEAST_HEAP:
        raise SparkStartError(
            f"spark.driver.memory={wanted} is too little: Spark needs {readable_size(LEAST_HEAP)} at the least. "
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
