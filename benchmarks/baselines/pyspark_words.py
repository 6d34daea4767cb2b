"""The word counts as plain PySpark, as its guide teaches it (the contract of a baseline: README.md one folder up).

A stream of text files, split by Spark's own functions, counted by `transformWithStateInPandas`, written as text files;
all settings are Spark's own but the one without which Spark refuses a state of Python's. `--partitions` changes the one
that a small machine needs most: by default Spark cuts state into 200 partitions. The job is run on a few lines first:
starting Python workers and loading classes are not what is measured.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming import StatefulProcessor

_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class CountByLetter(StatefulProcessor):
    """The counts of all words with one first letter."""

    def init(self, handle):
        self._totals = handle.getMapState("totals", "word string", "total long")

    def handleInputRows(self, key, rows, timerValues):  # noqa: ARG002, N802, N803 - as Spark calls it
        # Each word is read and written once for each batch: a call to the store costs more than anything else here.
        totals = {}
        for frame in rows:
            words = frame["word"]
            for word in words.unique():
                if word not in totals:
                    totals[word] = self._totals.getValue((word,))[0] if self._totals.containsKey((word,)) else 0
            numbers = words.map(totals) + words.groupby(words).cumcount() + 1
            totals.update(numbers.groupby(words).max())
            yield pd.DataFrame({"value": words + " => " + numbers.astype(str)})
        for word, total in totals.items():
            self._totals.updateValue((word,), (int(total),))

    def close(self):
        pass


class CountByWord(StatefulProcessor):
    """The count of one word."""

    def init(self, handle):
        self._total = handle.getValueState("total", "total long")

    def handleInputRows(self, key, rows, timerValues):  # noqa: ARG002, N802, N803
        total = self._total.get()[0] if self._total.exists() else 0
        for frame in rows:
            numbers = pd.Series(range(total + 1, total + len(frame) + 1))
            total += len(frame)
            yield pd.DataFrame({"value": key[0] + " => " + numbers.astype(str)})
        self._total.update((total,))

    def close(self):
        pass


WORKLOADS = {
    "words-27": (CountByLetter, "substring(word, 1, 1)"),
    "words-5k": (CountByWord, "word"),
    "words-200k": (CountByWord, "word"),
}


def count(spark, workload, source, output, checkpoint):
    """Run the job on the files that are there, and return the seconds that it took."""
    processor, key = WORKLOADS[workload]
    lines = spark.readStream.text(str(source), pathGlobFilter="*.txt")
    words = lines.select(sf.explode(sf.split("value", " ")).alias("word"))
    counts = (
        words.withColumn("key", sf.expr(key))
        .groupBy("key")
        .transformWithStateInPandas(
            statefulProcessor=processor(), outputStructType="value string", outputMode="Append", timeMode="None"
        )
    )
    started = time.monotonic()
    query = (
        counts.writeStream.trigger(availableNow=True)
        .option("checkpointLocation", str(checkpoint))
        .start(path=str(output), format="text")
    )
    query.awaitTermination()
    return time.monotonic() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("input", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--partitions", type=int)
    given = parser.parse_args()
    builder = SparkSession.builder.appName("Word count")
    builder.config("spark.sql.streaming.stateStore.providerClass", _PROVIDER)
    if given.partitions:
        builder.config("spark.sql.shuffle.partitions", given.partitions)
    spark = builder.getOrCreate()
    with tempfile.TemporaryDirectory(dir=given.output.parent) as scratch:
        folder = Path(scratch)
        few = folder / "few"
        few.mkdir()
        with (given.input / "words.txt").open() as lines:
            (few / "words.txt").write_text("".join(next(lines) for _ in range(100)))
        count(spark, given.workload, few, folder / "few-counts", folder / "few-checkpoint")
        seconds = count(spark, given.workload, given.input, folder / "counts", folder / "checkpoint")
        spark.stop()
        for number, path in enumerate(sorted((folder / "counts").glob("part-*"))):
            shutil.move(path, given.output / f"output-{number}")
    sys.stdout.write(json.dumps({"seconds": seconds}) + "\n")


if __name__ == "__main__":
    main()
