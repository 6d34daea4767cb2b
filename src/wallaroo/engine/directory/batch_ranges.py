"""Which messages a batch has: Spark writes that down before the batch begins."""

from __future__ import annotations

from pathlib import Path

from wallaroo.engine.directory.progress import offsets_of


class BatchRanges:
    """Reads what Spark's checkpoint says of batches."""

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint

    def of(self, batch: int) -> dict[str, tuple[int, int]]:
        """Return for each source where the batch begins and ends; nothing where that is not known."""
        start, end = offsets_of(self._checkpoint, batch - 1), offsets_of(self._checkpoint, batch)
        if not start and batch > 0:
            return {}
        return {source: (start.get(source, 0), reached) for source, reached in end.items()}

    def size(self, batch: int) -> int:
        """Return how many messages the batch has."""
        return sum(end - start for start, end in self.of(batch).values())
