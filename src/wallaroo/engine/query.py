"""The streaming query: the source, a stage for each level of states, and the egress at the end. One per application."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from wallaroo.engine.delivery.egress import Egress
from wallaroo.engine.processor import LevelProcessor
from wallaroo.engine.source import FORMAT, WallarooSource
from wallaroo.engine.stages.worker import worker_for
from wallaroo.engine.transport.chunks import COLUMNS
from wallaroo.engine.transport.shipping import PlanRef

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def prepare_workers(session: SparkSession, ref: PlanRef, number: int) -> None:
    """Have workers start and load the application in the background, while the query is being planned."""

    def prepare(_: int) -> None:
        worker_for(ref).prepare_sources()

    def run() -> None:
        with suppress(Exception):  # What is wrong with the application is found, and told, by the first batch.
            session.sparkContext.parallelize(range(number), number).foreach(prepare)

    threading.Thread(target=run, daemon=True).start()


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
    writer = frame.writeStream.foreachBatch(egress).option("checkpointLocation", str(checkpoint))
    return writer.queryName("wallaroo").start()
