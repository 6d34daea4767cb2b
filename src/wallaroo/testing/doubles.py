"""The parts of a real run that an application in memory has doubles for: its endpoints, and where errors go."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from wallaroo.connectors.base import Piece
from wallaroo.engine.stages.current_message import Origin
from wallaroo.engine.stages.outbox import AT_HAND, Outbox
from wallaroo.engine.stages.steps import checked_bytes
from wallaroo.engine.transport.dead_letter_record import Place
from wallaroo.errors import WallarooError
from wallaroo.protocols import LINES, Decoder, Encoder


class StepError(WallarooError):
    """User code failed on a message; the error that it raised is the `__cause__`.

    Attributes:
        pipeline: The name of the pipeline.
        step: The name of the step, or `decoder` or `encoder`.
        message: What the step was given.

    >>> error = StepError("words", "count", "why", ValueError("no such word"))
    >>> error.step, error.message
    ('count', 'why')
    >>> print(error)
    Pipeline 'words', step 'count' failed for the message 'why': ValueError: no such word
    """

    def __init__(self, pipeline: str, step: str, message: Any, error: BaseException) -> None:
        super().__init__(
            f"Pipeline {pipeline!r}, step {step!r} failed for the message {message!r}: {type(error).__name__}: {error}"
        )
        self.pipeline = pipeline
        self.step = step
        self.message = message


class Raised(BaseException):
    """Carries a StepError past everything that handles the exceptions of user code."""

    def __init__(self, error: StepError) -> None:
        super().__init__(error)
        self.error = error


class Direct(Outbox):
    """An outbox that leaves printing alone."""

    def capturing(self) -> contextlib.AbstractContextManager[object]:
        """Print where the test prints."""
        return contextlib.nullcontext()


class Raising(Direct):
    """An outbox that takes no dead letters."""

    def fail(  # noqa: PLR0913 - as `Outbox` has it
        self,
        place: Place,
        message: Any,
        error: BaseException,
        key: Any = AT_HAND,  # noqa: ARG002
        *,
        origin: Origin | None = None,  # noqa: ARG002
        encoding: str | None = None,  # noqa: ARG002
    ) -> None:
        """Raise the error."""
        failure = StepError(place.pipeline, place.step, message, error)
        failure.__cause__ = error
        raise Raised(failure)


class AtHand:
    """The message that is being run (`Messages`); it may be decoded already."""

    def __init__(self) -> None:
        self._piece: Piece = (0, [])

    def put(self, position: int, message: Any) -> None:
        """Make a message the one at hand."""
        self._piece = (position, [message])

    def read(self, source: str, first: int, end: int) -> Iterator[Piece]:  # noqa: ARG002 - there is only this one
        """Yield the message at hand."""
        yield self._piece


@dataclass
class Source:
    """A source that is sent its messages by hand."""

    decoder: Decoder


@dataclass
class Sink:
    """A sink that sends nothing."""

    encoder: Encoder
    name: str | None


class Feed:
    """A decoder that lets messages pass which are decoded already."""

    framing = LINES
    """Nothing is framed in memory, so it does not matter how."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    def decode(self, bs: Any) -> Any:
        """Return the message."""
        return self._decoder.decode(bs) if isinstance(bs, bytes) else bs


class Recorder:
    """An encoder that notes what it was given and what it made of it."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.outputs: list[Any] = []
        self.encoded: list[bytes] = []

    def encode(self, data: Any) -> bytes | None:
        """Encode an output, and note both."""
        self.outputs.append(data)
        encoded = self._encoder.encode(data)
        if encoded is None:
            return None
        self.encoded.append(checked_bytes(encoded))
        return self.encoded[-1]
