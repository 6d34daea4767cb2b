"""Where a worker gets the messages of a block from: by the name of a source and a range of positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from wallaroo.ingress.log_cursor import LogCursor

Piece = tuple[int, list[bytes]]
"""The position of a message, and the payloads from it on."""


class Messages(Protocol):
    """Reads the messages of blocks; the same range gives the same pieces each time."""

    def read(self, source: str, first: int, end: int) -> Iterator[Piece]:
        """Yield the messages of a source from `first` to `end`, without `end`, piece by piece."""


class LoggedMessages:
    """Reads messages from the logs of this machine."""

    def __init__(self, folders: Mapping[str, str]) -> None:
        self._logs = {source: LogCursor(Path(folder)) for source, folder in folders.items()}

    def read(self, source: str, first: int, end: int) -> Iterator[Piece]:
        """Return the messages that are there: a power failure may have taken some."""
        return self._logs[source].read(first, end)
