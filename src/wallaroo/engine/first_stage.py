"""The first stage: what a source has in its log, through the decoder and the steps up to the first state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from wallaroo.engine.outbox import Outbox
from wallaroo.engine.plan import Plan
from wallaroo.engine.steps import Run, source_line
from wallaroo.topology.model import Pipeline

_MESSAGES_IN_A_CHUNK = 250_000


class SourceLine(Protocol):
    """The way of the messages of one source."""

    @property
    def run(self) -> Run:
        """Return the loop over payloads."""

    def origin(self, position: int) -> dict[str, Any]:
        """Say where the message at hand, which has this position in the log, came from."""


class PipelineLine:
    """The way of the messages of a pipeline's source."""

    def __init__(self, plan: Plan, outbox: Outbox, pipeline: Pipeline) -> None:
        self._name = pipeline.name
        self.run: Run = source_line(plan, outbox, pipeline)

    def origin(self, position: int) -> dict[str, Any]:
        """Return the source and the position in it."""
        return {"source": self._name, "position": position}


class FirstStage:
    """Feeds the pieces of a log to a line."""

    def __init__(self, outbox: Outbox, line: SourceLine) -> None:
        self._outbox = outbox
        self._line = line

    def run(self, first: int, payloads: list[bytes]) -> None:
        """Run a piece whose first message has the position `first`."""
        remaining = iter(payloads)
        end = first + len(payloads)
        length_hint: Callable[[], int] = remaining.__length_hint__  # type: ignore[attr-defined]
        self._outbox.origin = lambda: self._line.origin(end - length_hint() - 1)
        with self._outbox.capturing():
            self._line.run(remaining)

    @property
    def is_full(self) -> bool:
        """Return whether the output is to be taken before the next piece; the same whenever these pieces are run."""
        return self._outbox.messages > _MESSAGES_IN_A_CHUNK
