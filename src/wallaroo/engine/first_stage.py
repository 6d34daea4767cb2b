"""The first stage: what a source has in its log, through the decoder and the steps up to the first state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from wallaroo.engine.outbox import Outbox
from wallaroo.engine.plan import Plan
from wallaroo.engine.steps import Run, source_line
from wallaroo.topology.model import Pipeline

_MESSAGES_IN_A_CHUNK = 100_000
"""At least; about twice as many at most, as long as payloads do not suddenly give far more messages than before."""
_PAYLOADS_AT_ONCE = 4096
_FIRST_LOOK = 64


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
        self._fed = 0
        self._next_look = _FIRST_LOOK

    def run(self, first: int, payloads: list[bytes]) -> Iterator[None]:
        """Run a piece whose first message has the position `first`.

        Yields when its output should be taken: at the end, where it is not yet so much that the processor's cache has
        lost it, and before that wherever there is far more output than input. These are the same places
        whenever the same pieces are run.
        """
        low = 0
        while low < len(payloads):
            high = low + min(_PAYLOADS_AT_ONCE, self._next_look - self._fed)
            self._run(first + low, payloads[low:high])
            low = high
            if self._fed >= self._next_look and self._is_full():
                yield
        yield

    def _run(self, first: int, payloads: list[bytes]) -> None:
        remaining = iter(payloads)
        end = first + len(payloads)
        length_hint: Callable[[], int] = remaining.__length_hint__  # type: ignore[attr-defined]
        self._outbox.origin = lambda: self._line.origin(end - length_hint() - 1)
        with self._outbox.capturing():
            self._line.run(remaining)
        self._fed += len(payloads)
        self._outbox.join_encoded()

    def _is_full(self) -> bool:
        """Look how much output there is, and decide when to look again: to look takes as long as there are keys."""
        waiting = self._outbox.messages
        if waiting < _MESSAGES_IN_A_CHUNK:
            self._next_look *= 2
            return False
        self._next_look = max(1, self._fed * _MESSAGES_IN_A_CHUNK // (2 * waiting))
        self._fed = 0
        return True
