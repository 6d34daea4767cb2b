"""The source of the streaming query: all of the application's sources as one, and the first stage inside its reader.

An offset is how many messages of each source have been taken, and how many nudges (a nudge makes a batch
without messages: it warms up every stage before the first message comes).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from wallaroo.engine.batch_size import BatchSize
from wallaroo.engine.stages.worker import worker_for
from wallaroo.engine.transport.chunks import COLUMNS, NUDGE, Chunk, record_batches
from wallaroo.engine.transport.shipping import PlanRef
from wallaroo.engine.turns import Turns
from wallaroo.errors import WallarooError
from wallaroo.ingress.client import IngressClient
from wallaroo.ingress.log_reader import LogReader

FORMAT = "wallaroo"
_WAIT_SECONDS = 1.0
_BYTES_WORTH_A_TASK = 64 << 10


@dataclass(frozen=True)
class SourceSettings:
    """What the reader needs to know, in a file of the application's directory that only its owner can read."""

    logs: dict[str, str]
    """The folder of each source's log."""
    control_path: str
    token: str
    plan: str
    digest: str
    partitions: int
    carriers: list[int]
    batch_bytes: int
    """How much of the log a batch takes at the most."""

    def write(self, path: Path) -> None:
        """Write the settings."""
        path.touch(mode=0o600)
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, path: str) -> SourceSettings:
        """Read the settings."""
        return cls(**json.loads(Path(path).read_text()))


class WallarooSource(DataSource):
    """The data source as Spark knows it."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._settings = options["settings"]

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns of a chunk."""
        return COLUMNS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """Return the reader."""
        return _Reader(SourceSettings.read(self._settings))


@dataclass
class _Range(InputPartition):
    source: str
    start: int
    end: int


@dataclass
class _Nudge(InputPartition):
    carrier: int


class _Reader(DataSourceStreamReader):
    """Offsets and ranges in a process of the driver's, `read` in the workers."""

    def __init__(self, settings: SourceSettings) -> None:
        self._settings = settings
        self._committed: dict[str, int] = {}

    @cached_property
    def _ingress(self) -> IngressClient:
        return IngressClient(self._settings.control_path, self._settings.token)

    @cached_property
    def _batch_size(self) -> BatchSize:
        return BatchSize(self._settings.batch_bytes)

    @cached_property
    def _turns(self) -> Turns:
        return Turns(self._logs)

    @cached_property
    def _logs(self) -> dict[str, LogReader]:
        return {source: LogReader(Path(folder)) for source, folder in self._settings.logs.items()}

    def __getstate__(self) -> dict[str, Any]:
        return {"_settings": self._settings, "_committed": {}}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return where a new application starts."""
        return {"nudges": 0, "sources": dict.fromkeys(self._settings.logs, 0)}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        """Return how far the next batch goes; waits a while for something to come."""
        known = {source: start["sources"].get(source, 0) for source in self._logs}
        # Spark asks when the batch before is done, and tells so only with the next one. A log that is full waits for
        # room before there can be a next one.
        self.commit(start)
        self._batch_size.ends()
        answer = self._ingress.wait(known, _WAIT_SECONDS)
        if answer.draining:
            return start
        there = {source: (known[source], end) for source, end in answer.ends.items() if end > known.get(source, end)}
        # Those of pipelines that are not here now are in `start`, too: they may come back.
        ends = start["sources"] | known | self._turns.shared(there, self._batch_size.bytes)
        self._batch_size.begins(full=any(ends[source] < end for source, end in answer.ends.items() if source in known))
        return {"nudges": start["nudges"] + int(answer.nudged), "sources": ends}

    def _refuse_missing_pipelines(self, start: dict[str, int], end: dict[str, int]) -> None:
        for source in end.keys() - self._logs.keys():
            if end[source] > start.get(source, 0):
                raise WallarooError(
                    f"The batch that was under way has messages of the pipeline {source!r}, which the application no "
                    "longer has. Start it once more with that pipeline, so that they are processed"
                )

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Cut the batch into tasks: as many as there are partitions, but none for a handful of bytes."""
        most = self._settings.partitions
        self._refuse_missing_pipelines(start["sources"], end["sources"])
        ranges: list[InputPartition] = []
        for source, log in self._logs.items():
            begin, stop = start["sources"].get(source, 0), end["sources"].get(source, 0)
            for low, high in log.present(begin, stop) if stop > begin else ():
                tasks = min(most, 1 + log.bytes_between(low, high) // _BYTES_WORTH_A_TASK)
                ranges += [_Range(source, *cut) for cut in log.cut(low, high, tasks)]
        if end["nudges"] != start["nudges"] or not ranges:
            ranges += [_Nudge(carrier) for carrier in self._settings.carriers]
        return ranges

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Run the first stage on one range of one source."""
        worker = worker_for(PlanRef(self._settings.plan, self._settings.digest))
        if isinstance(partition, _Range):
            log = LogReader(Path(self._settings.logs[partition.source]))
            pieces = log.read(partition.start, partition.end)
            chunks = worker.run_source(partition.source, partition.start, pieces)
        else:
            assert isinstance(partition, _Nudge)
            worker.prepare_sources()
            chunks = iter([Chunk(NUDGE, partition.carrier, 0, 0, 0, b"")])
        try:
            yield from record_batches(chunks)
        finally:
            worker.end_of_task()

    def commit(self, end: dict[str, Any]) -> None:
        """Let go of what has been processed."""
        if end["sources"] != self._committed:
            self._ingress.commit(end["sources"])
            self._committed = end["sources"]
