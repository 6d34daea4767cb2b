"""Computes the blocks of a task, each with a note that it has begun, and with care where a process has died at one."""

from __future__ import annotations

import faulthandler
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from wallaroo.engine.stages.watch import Watch
from wallaroo.engine.transport.worker_notes import Care, WorkerNote

if TYPE_CHECKING:
    from wallaroo.engine.stages.worker import Worker

Result = TypeVar("Result")


@lru_cache(maxsize=1)
def note_in(folder: str) -> WorkerNote:
    """Return the note of this process: one that says nothing where there is no folder for it."""
    return WorkerNote(Path(folder) if folder else None)


class CarefulTask:
    """A task that goes by what processes have died at."""

    def __init__(self, worker: Worker, note: WorkerNote, care: Care) -> None:
        self._worker = worker
        self._note = note
        self._care = care
        worker.begin_task(care.first_calls)

    def run(self, block: int, compute: Callable[[], Result]) -> Result:
        """Compute a block."""
        self._note.begin(block)
        if block not in self._care.blocks:
            return compute()
        watch = Watch(self._care.calls.get(block, {}), self._note)
        with self._last_words(), self._worker.watched(watch):
            return compute()

    @contextmanager
    def _last_words(self) -> Iterator[None]:
        """Have Python say how it dies, unless somebody else has asked it to."""
        file = None if faulthandler.is_enabled() else self._note.file_for_trace()
        if file is None:
            yield
            return
        faulthandler.enable(file)
        try:
            yield
        finally:
            faulthandler.disable()
