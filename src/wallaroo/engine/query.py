"""The streaming query: the source, a stage for each level of states, and the egress at the end. One per application."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wallaroo.engine.chunks import COLUMNS
from wallaroo.engine.egress import Egress
from wallaroo.engine.processor import LevelProcessor
from wallaroo.engine.shipping import PlanRef
from wallaroo.engine.source import FORMAT, WallarooSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def start_query(  # noqa: PLR0913, PLR0917 - the parts of a query
    session: SparkSession, ref: PlanRef, levels: int, settings: Path, egress: Egress, checkpoint: Path
) -> StreamingQuery:
    """Start the query of an application."""
    session.dataSource.register(WallarooSource)
    frame = session.readStream.format(FORMAT).option("settings", str(settings)).load()
    for level in range(levels):
        frame = frame.groupBy("grp").transformWithState(
            LevelProcessor(ref, level), outputStructType=COLUMNS, outputMode="Append", timeMode="None"
        )
    writer = frame.writeStream.foreachBatch(egress).option("checkpointLocation", checkpoint.as_uri())
    return writer.queryName("wallaroo").start()
