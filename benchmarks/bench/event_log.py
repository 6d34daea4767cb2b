"""Where the time of a batch goes, out of Spark's event log."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_PROGRESS = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"

_PHASES = {
    "latestOffset": "asking for messages, and waiting for them",
    "queryPlanning": "planning",
    "getBatch": "planning",
    "walCommit": "writing down what the batch takes",
    "commitOffsets": "writing down that it is done",
}


def options(folder: Path) -> tuple[str, ...]:
    """Return what to say to machida so that Spark writes its event log to a folder."""
    folder.mkdir()
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    return tuple(part for key, value in settings.items() for part in ("--spark-conf", f"{key}={value}"))


class EventLog:
    """The batches of a run between two moments (in seconds since 1970)."""

    def __init__(self, folder: Path, begin: float, end: float) -> None:
        self._stages: defaultdict[int, dict[int, dict[str, Any]]] = defaultdict(dict)
        self._progress: dict[int, dict[str, int]] = {}
        batch_of_stage: dict[int, int] = {}
        for event in _events(folder):
            match event["Event"]:
                case "SparkListenerJobStart":
                    batch = int((event.get("Properties") or {}).get("streaming.sql.batchId", -1))
                    batch_of_stage |= dict.fromkeys(event["Stage IDs"], batch)
                case "SparkListenerStageCompleted":
                    stage = event["Stage Info"]
                    self._stages[batch_of_stage.get(stage["Stage ID"], -1)][stage["Stage ID"]] = stage
                case kind if kind == _PROGRESS:
                    progress = _progress_of(event)
                    started = min(
                        (stage["Submission Time"] for stage in self._stages[progress["batchId"]].values()), default=0
                    )
                    if begin <= started / 1e3 <= end:
                        self._progress[progress["batchId"]] = progress["durationMs"]

    @property
    def batches(self) -> int:
        """Return how many batches there were."""
        return len(self._progress)

    def phases(self) -> dict[str, float]:
        """Return the mean milliseconds of each phase of a batch; they add up to the last one, the whole."""
        sums: defaultdict[str, float] = defaultdict(float)
        for batch, durations in self._progress.items():
            stages = self._wall_times(batch)
            known = dict(stages)
            for phase, name in _PHASES.items():
                known[name] = known.get(name, 0) + durations.get(phase, 0)
            in_batch = durations.get("addBatch", 0)
            known["between and behind the stages: starting jobs, collecting, sending"] = in_batch - sum(stages.values())
            whole = durations["triggerExecution"]
            known["the rest"] = whole - in_batch - sum(durations.get(phase, 0) for phase in _PHASES)
            for name, milliseconds in known.items():
                sums[name] += milliseconds
            sums["whole batch"] += whole
        order = [name for name in sums if name != "whole batch"]
        return {name: sums[name] / self.batches for name in (*order, "whole batch")} if self.batches else {}

    def _wall_times(self, batch: int) -> dict[str, float]:
        stages = sorted(self._stages[batch].values(), key=lambda stage: stage["Stage ID"])
        return {
            f"stage {number} of the batch": stage["Completion Time"] - stage["Submission Time"]
            for number, stage in enumerate(stages, 1)
        }

    def metrics(self) -> dict[str, float]:
        """Return Spark's own measurements inside the stages: the mean of a batch, over all tasks, in milliseconds."""
        values: defaultdict[str, list[float]] = defaultdict(list)
        for batch in self._progress:
            for number, (_, stage) in enumerate(sorted(self._stages[batch].items()), 1):
                for accumulable in stage.get("Accumulables", ()):
                    name = accumulable["Name"].removeprefix("internal.metrics.")
                    if factor := _milliseconds(name):
                        values[f"stage {number}: {name}"].append(factor * float(accumulable["Value"]))
        return {name: statistics.mean(found) for name, found in values.items() if any(found)}


def _milliseconds(name: str) -> float | None:
    """Return the factor that makes milliseconds of a metric, None if it is no time."""
    lowered = name.lower()
    if "time" not in lowered:
        return None
    return 1e-6 if "cpu" in lowered or "shuffle write time" in lowered or "shuffle.write" in lowered else 1.0


def _events(folder: Path) -> Iterator[dict[str, Any]]:
    for path in folder.iterdir():
        with path.open() as file:
            for line in file:
                # A run that is still going on, or was killed, may have left half a line.
                if line.endswith("\n"):
                    yield json.loads(line)


def _progress_of(event: dict[str, Any]) -> dict[str, Any]:
    progress = event["progress"]
    return json.loads(progress) if isinstance(progress, str) else progress
