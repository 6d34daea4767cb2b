"""Memory: how much is available to Spark, on this machine or in its container, and how large a message may be."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from wallaroo.engine.spark.session import DRIVER_MEMORY, SparkOptions
from wallaroo.errors import SparkStartError
from wallaroo.ingress.limits import Limits
from wallaroo.sizes import parse_size, readable_size

MIN_MESSAGE = 1 << 20
"""Messages of this size are always accepted: their memory is negligible wherever Spark runs at all."""

_MIB = 1 << 20
_TIMES_IN_HEAP = 14
_HEAP_OF_SPARK = 128 << 20
_TIMES_IN_MEMORY = 16
_MEMORY_OF_ALL = 512 << 20
"""What the processes take beyond the JVM's heap, whatever the messages are."""


def fitting_limits(limits: Limits, spark: SparkOptions, memory: int | None = None) -> Limits:
    """Return limits for which there is enough memory: those that the user has not set may be lowered.

    Raises:
        SparkStartError: The user has set a limit that is too large.
    """
    memory = available() if memory is None else memory
    fits = largest_message(spark, memory)
    if limits.max_message_size > fits:
        if "max_message_size" in limits.chosen:
            raise SparkStartError(_too_large(limits.max_message_size, spark, memory, fits))
        limits = replace(limits, max_message_size=fits)
    # The ingress process on this machine keeps incomplete messages, so the memory of a cluster does not matter.
    room = max(_whole(memory - _MEMORY_OF_ALL - (_heap(spark) if spark.local else 0) - fits), MIN_MESSAGE)
    if limits.max_unfinished > room:
        if "max_unfinished" in limits.chosen:
            raise SparkStartError(
                f"--max-unfinished {readable_size(limits.max_unfinished)} is too much: beside Spark, this machine or "
                f"container has room for {readable_size(room)} of unfinished messages. Write that, or less."
            )
        limits = replace(limits, max_unfinished=room)
    return limits


def largest_message(spark: SparkOptions, memory: int) -> int:
    """Return how large a message may be with these options of Spark and this much memory.

    >>> largest_message(SparkOptions(conf={"spark.driver.memory": "2g"}), 8 << 30) >> 20
    137
    """
    rooms = [(_heap(spark) - _HEAP_OF_SPARK) // _TIMES_IN_HEAP]
    if spark.local:
        rooms.append((memory - _heap(spark) - _MEMORY_OF_ALL) // _TIMES_IN_MEMORY)
    return max(_whole(min(rooms)), MIN_MESSAGE)


def _heap(spark: SparkOptions) -> int:
    """Return the smallest heap of all JVMs."""
    heap = parse_size(spark.conf.get("spark.driver.memory", DRIVER_MEMORY))
    return heap if spark.local else min(heap, parse_size(spark.conf.get("spark.executor.memory", "1g")))


def _too_large(wanted: int, spark: SparkOptions, memory: int, fits: int) -> str:
    """Return the message for a limit that is too large: what would fit, and what else could be changed."""
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
    """Return a size rounded down to whole MiB."""
    return size // _MIB * _MIB


MIN_HEAP = 450 << 20
"""With less than this Spark refuses to start."""


def check_memory(wanted: str) -> None:
    """Refuse a heap (`spark.driver.memory`, such as "1g") that is too small for Spark or too large for this machine.

    The JVM itself would start and, once it uses that memory, be killed without a message.
    """
    heap, there = parse_size(wanted), available() >> 20 << 20
    if heap < MIN_HEAP:
        raise SparkStartError(
            f"spark.driver.memory={wanted} is too little: Spark needs {readable_size(MIN_HEAP)} at the least. "
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
    """Yield the limits of this process's control groups, of both versions; only on Linux."""
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
    # Inside a container the path may be the host's, of which only the root is visible.
    inner = root / path.strip("/")
    for group in (inner, *inner.parents):
        try:
            text = (group / file).read_text().strip()
        except OSError:
            text = ""
        if text.isdigit():  # "max" means no limit.
            yield int(text)
        if group == root:
            return
