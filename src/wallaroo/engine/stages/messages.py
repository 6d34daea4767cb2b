"""Where a worker gets the messages of a block from: by the name of a source and a range of positions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from wallaroo.connectors.base import Piece, SourceReader
from wallaroo.connectors.kinds import source_kind_called
from wallaroo.engine.plan import Plan
from wallaroo.ingress.log_cursor import LogCursor


class Messages(Protocol):
    """Reads the messages of blocks; the same range gives the same pieces each time."""

    def read(self, source: str, first: int, end: int) -> Iterator[Piece]:
        """Yield the messages of a source from `first` to `end`, without `end`, piece by piece."""


class SourceMessages:
    """Reads the messages of each source as its kind does: from the source's log, or elsewhere.

    `log_of` gives what reads a source's log; where it is not given, the logs are on this machine.
    """

    def __init__(self, plan: Plan, log_of: Callable[[str], SourceReader] | None = None) -> None:
        self._plan = plan
        self._log_of = log_of or self._log_here
        self._readers: dict[str, SourceReader] = {}

    def read(self, source: str, first: int, end: int) -> Iterator[Piece]:
        """Return the messages that are there: a power failure may have taken some."""
        reader = self._readers.get(source)
        if reader is None:
            reader = self._readers[source] = self._open(source)
        return reader.read(first, end)

    def _open(self, source: str) -> SourceReader:
        told = self._plan.inputs[source]
        kind = source_kind_called(told["kind"])
        return kind.reader(self._plan.source_config(source), told["place"], self._log_of(source))

    def _log_here(self, source: str) -> LogCursor:
        return LogCursor(Path(self._plan.inputs[source]["log"]))
