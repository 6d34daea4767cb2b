"""A stage with state, as Spark runs it: the states of one level of the plan, one group at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from wallaroo.engine.stages.worker import worker_for
from wallaroo.engine.transport.chunks import Chunk
from wallaroo.engine.transport.shipping import PlanRef

_HEAD = StructType([StructField("head", BinaryType())])
_ENTRY_KEY = StructType([StructField("number", LongType()), StructField("piece", IntegerType())])
_ENTRY = StructType([StructField("data", BinaryType())])
_PIECE_BYTES = 16 << 20

_Row = Row(*Chunk._fields)


class LevelProcessor(StatefulProcessor):
    """Hands each group of chunks to the worker, with the group's part of Spark's state store."""

    def __init__(self, ref: PlanRef, level: int) -> None:
        self._ref = ref
        self._level = level

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the two state variables, which serve whichever group is at hand."""
        self._store = _SparkBucketStore(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        """Run one group."""
        chunks = (Chunk(*row) for row in rows)
        for chunk in worker_for(self._ref).run_group(self._level, key[0], chunks, self._store):
            yield _Row(*chunk)

    def close(self) -> None:
        """Tidy up at the end of a task."""
        worker_for(self._ref).end_of_task()


class _SparkBucketStore:
    """The bucket at hand in Spark's state store. A call is a round trip to the JVM, so a batch makes only a few."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._head = handle.getValueState("head", _HEAD)
        self._entries = handle.getMapState("entries", _ENTRY_KEY, _ENTRY)

    def read_head(self) -> bytes | None:
        row = self._head.get()
        return None if row is None else bytes(row[0])

    def write_head(self, head: bytes) -> None:
        self._head.update((head,))

    def read_entry(self, number: int, size: int) -> bytes:
        pieces: list[Any] = [self._entries.getValue((number, piece)) for piece in _pieces(size)]
        return b"".join(bytes(piece[0]) for piece in pieces)

    def write_entry(self, number: int, data: bytes) -> None:
        for piece in _pieces(len(data)):
            part = data[piece * _PIECE_BYTES : (piece + 1) * _PIECE_BYTES]
            self._entries.updateValue((number, piece), (part,))

    def remove_entry(self, number: int, size: int) -> None:
        for piece in _pieces(size):
            self._entries.removeKey((number, piece))


def _pieces(size: int) -> range:
    """Return the numbers of the pieces into which an entry of `size` bytes is cut."""
    return range(-(-size // _PIECE_BYTES))
