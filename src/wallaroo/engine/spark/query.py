"""The streaming query in Spark's real-time mode: the source of blocks, and a stage of long tasks for each level."""

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
"""What Spark calls a batch never ends: what is committed, and when, is decided by us."""


def start_query(
    session: SparkSession, settings: TaskSettings, control: str, start: int, checkpoint: Path
) -> StreamingQuery:
    """Start the query of an application from a block on."""
    reader = session.readStream.format(_SOURCE).option("address", control).option("token", settings.token)
    reader = reader.option("attempt", settings.attempt).option("readers", settings.readers).option("start", start)
    context = session.sparkContext
    # Spark keeps idle workers in pools by their environment: so each stage has workers of its own, with its states.
    context.environment[_STAGE] = "first"
    frame = reader.load().mapInArrow(first_stage(settings), COLUMNS)
    for level in range(settings.levels):
        context.environment[_STAGE] = str(level)
        frame = frame.repartition(settings.partitions, "part").mapInArrow(later_stage(settings, level), COLUMNS)
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).outputMode("update")
    # PySpark has this trigger, and no type for it.
    query: StreamingQuery = writer.trigger(realTime=_FOR_EVER).queryName("wallaroo").start()  # type: ignore[call-overload]
    return query


REAL_TIME = {
    # Python operators are not on the list of what Spark has tried in this mode.
    "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
    "spark.sql.streaming.realTimeMode.minBatchDuration": "1000",
    # An epoch counts when we have committed it, which is before Spark does.
    "spark.sql.streaming.realTimeMode.asyncProgressTrackingByDefault.enabled": "false",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    # A row has all that a block, or several, have for a partition, and goes at once: the JVM writes to a worker while
    # it reads from it, through buffers in which nothing waits for more.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.python.udf.pipelined.enabled": "true",
    "spark.python.udf.pipelined.queueDepth": "1",
    "spark.sql.execution.python.udf.buffer.size": "64",
    "spark.buffer.size": "64",
    # Workers are forked with their packages imported.
    "spark.python.daemon.module": "wallaroo.engine.spark.worker_daemon",
    # What failed is computed again from the last commit, by all tasks; one alone cannot be.
    "spark.task.maxFailures": "1",
}
ON_ONE_MACHINE = {
    # Rows go from stage to stage in memory: Spark's own way listens on every interface of the machine.
    "spark.shuffle.manager.incremental": "wallaroo.OneProcessShuffle",
}
ON_A_CLUSTER = {
    # They go through Spark's own streaming shuffle, which would hold them back to send more at once.
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "1",
}
