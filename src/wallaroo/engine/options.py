"""The options of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from wallaroo.engine.delivery.error_policy import OnError
from wallaroo.engine.spark.session import SparkOptions
from wallaroo.ingress.limits import Limits


@dataclass(frozen=True)
class RunOptions:
    """What a user can choose."""

    home: Path | None = None
    reset: bool = False
    """Whether to start fresh; the contents of the directory are then archived."""
    skip_damaged: bool = False
    """Whether to skip damaged messages in the logs."""
    workers: int | None = None
    """The degree of parallelism; by default what the machine or the cluster offers."""
    buckets: int | None = None
    strict_keys: bool = False
    """Whether messages with a key that is not in `partition_keys` become dead letters."""
    effectively_once: bool = False
    """Whether blocks are framed with their numbers, for receivers that confirm them and drop repeats."""
    on_error: OnError = field(default_factory=OnError)
    epoch_seconds: float | None = None
    """The longest time between two commits."""
    limits: Limits = field(default_factory=Limits)
    spark: SparkOptions = field(default_factory=SparkOptions)
