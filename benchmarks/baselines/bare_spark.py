"""Starts a Spark session and runs the smallest job there is; prints when each was done, by the monotonic clock."""

from __future__ import annotations

import time

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
print(time.monotonic())
spark.range(1).count()
print(time.monotonic())
spark.stop()
