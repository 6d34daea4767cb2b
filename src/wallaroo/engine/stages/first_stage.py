"""The first stage: runs logged messages of the sources through the decoder and the steps up to the first state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from wallaroo.connectors.base import Piece, SourceReader
from wallaroo.connectors.registry import source_kind_called
from wallaroo.engine.plan import Plan
from wallaroo.engine.stages.outbox import Outbox
from wallaroo.engine.stages.steps import Run, source_line
from wallaroo.ingress.log.cursor import LogCursor
from wallaroo.topology.model import Pipeline

_PAYLOADS_AT_ONCE = 4096


class SourceLine(Protocol):
    """Processes the messages of one source."""

    @property
    def run(self) -> Run:
        """Return the loop over payloads."""

    def origin(self, position: int, lane: int) -> dict[str, Any]:
        """Return the origin of the current message, which has this position in its lane."""


class PipelineLine:
    """Processes the messages of a pipeline's source."""

    def __init__(self, plan: Plan, outbox: Outbox, pipeline: Pipeline) -> None:
        self._name = pipeline.name
        self._has_lanes = plan.has_lanes(pipeline.name)
        self.run: Run = source_line(plan, outbox, pipeline)

    def origin(self, position: int, lane: int) -> dict[str, Any]:
        """Return the source and the position in it."""
        partition = {"partition": lane} if self._has_lanes else {}
        return {"source": self._name, **partition, "position": position}


class FirstStage:
    """Feeds the messages of a lane to a line, piece by piece."""

    def __init__(self, outbox: Outbox, line: SourceLine, lane: int) -> None:
        self._outbox = outbox
        self._line = line
        self._lane = lane

    def run(self, first: int, payloads: list[bytes]) -> Iterator[None]:
        """Run a piece whose first message has the position `first`.

        Yields when the output should be taken: at the end of the piece, while the output is still in the processor's
        cache, and earlier whenever payloads have produced very many messages. The same pieces always yield at the same
        points.
        """
        low = 0
        while low < len(payloads):
            low += self._run(first + low, payloads[low : low + _PAYLOADS_AT_ONCE])
            if self._outbox.is_full and low < len(payloads):
                yield
        yield

    def _run(self, first: int, payloads: list[bytes]) -> int:
        """Run some payloads and return how many: a line stops when the outbox is full."""
        remaining = iter(payloads)
        end = first + len(payloads)
        length_hint: Callable[[], int] = remaining.__length_hint__  # type: ignore[attr-defined]

        def position() -> int:
            return end - length_hint() - 1

        current = self._outbox.current
        # A message without a key must not see the key of another source's last message.
        current.key = None
        current.origin = lambda: self._line.origin(position(), self._lane)
        current.number = position
        with self._outbox.capturing():
            self._line.run(remaining)
        self._outbox.join_encoded()
        return len(payloads) - length_hint()


class Messages(Protocol):
    """Reads the messages of blocks; the same range yields the same pieces each time."""

    def read(self, source: str, first: int, end: int, lane: int) -> Iterator[Piece]:
        """Yield the messages of a source's lane from `first` up to, but not including, `end`, in pieces."""


class SourceMessages:
    """Reads the messages of each source according to its kind: from the source's log, or elsewhere.

    `log_of` returns a reader for a source's log; by default the logs are on this machine.
    """

    def __init__(self, plan: Plan, log_of: Callable[[str], SourceReader] | None = None) -> None:
        self._plan = plan
        self._log_of = log_of or self._log_here
        self._readers: dict[str, SourceReader] = {}

    def read(self, source: str, first: int, end: int, lane: int) -> Iterator[Piece]:
        """Return the messages that exist: a power failure may have lost some."""
        reader = self._readers.get(source)
        if reader is None:
            reader = self._readers[source] = self._open(source)
        return reader.read(first, end, lane)

    def _open(self, source: str) -> SourceReader:
        told = self._plan.inputs[source]
        kind = source_kind_called(told["kind"])
        return kind.reader(self._plan.source_config(source), told["place"], self._log_of(source))

    def _log_here(self, source: str) -> LogCursor:
        return LogCursor(Path(self._plan.inputs[source]["log"]))
