"""How large a message may be, so that all processes on its way have room for it.

The figures are measured with the hungriest application there is: two states in a row, each of which keeps the message
and puts it out again. A message is then about fourteen times in the memory of Spark's JVM, whose rows and buffers are
copies of each other, and sixteen times in that of the machine: in the JVM beyond its heap, in the workers, in the
process that accepts connections, in the driver.
"""

from __future__ import annotations

from dataclasses import replace

from wallaroo.engine.spark.memory import available
from wallaroo.engine.spark.session import DRIVER_MEMORY, SparkOptions
from wallaroo.errors import SparkStartError
from wallaroo.ingress.limits import Limits
from wallaroo.sizes import parse_size, readable_size

LEAST = 1 << 20
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
    room = max(_whole(memory - _MEMORY_OF_ALL - (_heap(spark) if spark.local else 0) - fits), LEAST)
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
    return max(_whole(min(rooms)), LEAST)


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
