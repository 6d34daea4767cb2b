"""The latency application as plain PySpark, as its guide teaches it: lines from a socket, a state for each key.

Connects to the addresses in BENCH_SOURCE and BENCH_SINK, reads `key time` on each line and answers `key count time`,
forever. All settings are Spark's own but the one without which Spark refuses a state of Python's, and `--partitions`,
as in pyspark_words.py.
"""

from __future__ import annotations

import argparse
import os
import socket

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming import StatefulProcessor

_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class CountKey(StatefulProcessor):
    """How often one key has come."""

    def init(self, handle):
        self._count = handle.getValueState("count", "count long")

    def handleInputRows(self, key, rows, timerValues):  # noqa: ARG002, N802, N803 - as Spark calls it
        count = self._count.get()[0] if self._count.exists() else 0
        for frame in rows:
            counts = pd.Series(range(count + 1, count + len(frame) + 1), index=frame.index)
            count += len(frame)
            yield pd.DataFrame({"value": key[0] + " " + counts.astype(str) + " " + frame["time"]})
        self._count.update((count,))

    def close(self):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int)
    given = parser.parse_args()
    builder = SparkSession.builder.appName("Latency")
    builder.config("spark.sql.streaming.stateStore.providerClass", _PROVIDER)
    if given.partitions:
        builder.config("spark.sql.shuffle.partitions", given.partitions)
    spark = builder.getOrCreate()
    host, port = os.environ["BENCH_SOURCE"].split(":")
    sink_host, sink_port = os.environ["BENCH_SINK"].split(":")
    receiver = socket.create_connection((sink_host, int(sink_port)))

    def deliver(batch, _number):
        receiver.sendall("".join(f"{row.value}\n" for row in batch.collect()).encode())

    lines = spark.readStream.format("socket").option("host", host).option("port", port).load()
    parts = sf.split("value", " ")
    answers = (
        lines.select(parts[0].alias("key"), parts[1].alias("time"))
        .groupBy("key")
        .transformWithStateInPandas(
            statefulProcessor=CountKey(), outputStructType="value string", outputMode="Append", timeMode="None"
        )
    )
    answers.writeStream.foreachBatch(deliver).start().awaitTermination()


if __name__ == "__main__":
    main()
