"""The streaming query in Spark's real-time mode: the source of blocks, and a stage of long-running tasks per level."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wallaroo.engine.stages.shuffle import COLUMNS
from wallaroo.engine.stages.tasks import TaskSettings, first_stage, later_stage

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


_SOURCE = "wallaroo.BlockSource"
_STAGE = "WALLAROO_STAGE"
_FOR_EVER = "3650 days"
"""Spark's batch never ends: we decide what is committed, and when."""


def start_query(
    session: SparkSession, settings: TaskSettings, control: str, start: int, checkpoint: Path
) -> StreamingQuery:
    """Start the query of an application at the block `start`."""
    reader = session.readStream.format(_SOURCE).option("address", control).option("token", settings.token)
    reader = reader.option("attempt", settings.attempt).option("readers", settings.readers).option("start", start)
    context = session.sparkContext
    # Spark pools idle workers by their environment: with this each stage has its own workers, which have made its code.
    context.environment[_STAGE] = "first"
    frame = reader.load().mapInArrow(first_stage(settings), COLUMNS)
    for level in range(settings.levels):
        context.environment[_STAGE] = str(level)
        frame = frame.repartition(settings.partitions, "part").mapInArrow(later_stage(settings, level), COLUMNS)
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).outputMode("update")
    # PySpark has this trigger, but no type annotation for it.
    query: StreamingQuery = writer.trigger(realTime=_FOR_EVER).queryName("wallaroo").start()  # type: ignore[call-overload]
    return query


REAL_TIME = {
    # Python operators are not on Spark's list of tested operators for this mode.
    "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
    "spark.sql.streaming.realTimeMode.minBatchDuration": "1000",
    # Spark's own progress is of no use to us: we commit.
    "spark.sql.streaming.realTimeMode.asyncProgressTrackingByDefault.enabled": "false",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    # A row has all data of one or more blocks for a partition, and is sent immediately: the JVM writes to a worker
    # while it reads from it, through buffers too small to delay anything.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.python.udf.pipelined.enabled": "true",
    "spark.python.udf.pipelined.queueDepth": "1",
    "spark.sql.execution.python.udf.buffer.size": "64",
    "spark.buffer.size": "64",
    # After a failure all tasks restart from the last commit; a single task cannot be retried.
    "spark.task.maxFailures": "1",
}
ON_ONE_MACHINE = {
    # Rows go from stage to stage in memory: Spark's own streaming shuffle listens on every interface of the machine.
    "spark.shuffle.manager.incremental": "wallaroo.OneProcessShuffle",
}
ON_A_CLUSTER = {
    # Rows go through Spark's own streaming shuffle, which by default buffers them to send larger messages.
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "1",
}
