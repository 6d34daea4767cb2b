"""How far an application had got, as Spark's checkpoint tells it to whoever looks before Spark is started."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from wallaroo.engine.directory.home import Home
from wallaroo.errors import DirectoryError
from wallaroo.ingress.log_format import past_lost, segment_starts
from wallaroo.ingress.log_reader import LogReader


@dataclass(frozen=True)
class Progress:
    """How many messages of each source were taken, by the batches that are done and by those that were planned."""

    done: Mapping[str, int]
    planned: Mapping[str, int]
    batch_under_way: bool
    """Whether the last batch that was planned has not been done."""


def read_progress(checkpoint: Path) -> Progress:
    """Read how far the last run had got: nowhere, if there is no checkpoint yet."""
    planned, done = (_last(checkpoint / kind) for kind in ("offsets", "commits"))
    return Progress(offsets_of(checkpoint, done), offsets_of(checkpoint, planned), planned > done)


def _last(folder: Path) -> int:
    return max((int(path.name) for path in folder.glob("*") if path.name.isdigit()), default=-1)


def offsets_of(checkpoint: Path, batch: int) -> dict[str, int]:
    """Return how many messages of each source were taken up to the end of a batch; nothing where that is not known."""
    try:
        lines = (checkpoint / "offsets" / str(batch)).read_text().splitlines()
        # A version, what Spark has to know of the batch, and a line for each source of the query, which has one.
        sources: dict[str, int] = json.loads(lines[-1])["sources"]
    except (OSError, ValueError, LookupError, TypeError):
        return {}  # One that is damaged is for Spark to find, which cannot do without.
    return sources


def refuse_missing_sources(progress: Progress, sources: Collection[str]) -> None:
    """Refuse an application without a source whose messages are in the batch under way: it must be done as planned."""
    for source, planned in progress.planned.items():
        if source not in sources and planned > progress.done.get(source, 0):
            raise DirectoryError(
                f"The batch that was under way has messages of the pipeline {source!r}, which the application no "
                "longer has.\nStart it once more with that pipeline, so that they are processed, or start fresh with "
                "--reset, which keeps what is there in a folder of its own."
            )


def unprocessed(home: Home) -> dict[Path, int]:
    """Return how many messages are waiting in each log, where there are any."""
    done = {home.log_of(source): taken for source, taken in read_progress(home.checkpoint).done.items()}
    counted = {folder: _messages_from(folder, done.get(folder, 0)) for folder in home.logs.glob("*")}
    return {folder: number for folder, number in counted.items() if number}


def log_without(home: Home, taken: Mapping[str, int]) -> Path | None:
    """Return a log that no longer has all of the messages which come after those `taken`, None if there is none."""
    needed = {home.log_of(source): index for source, index in taken.items()}
    for folder in sorted(home.logs.glob("*")):
        first = past_lost(folder, needed.get(folder, 0))
        if any(start > first for start in segment_starts(folder)[:1]):
            return folder
    return None


def _messages_from(folder: Path, index: int) -> int:
    log = LogReader(folder)
    start = max([index, *segment_starts(folder)[:1]])
    return sum(high - low for low, high in log.present(start, log.end())) if log.end() > start else 0
