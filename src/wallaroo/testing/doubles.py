"""The doubles for the parts of a real run that an in-memory application replaces: endpoints and error handling."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from wallaroo import python2_hints
from wallaroo.connectors.base import Piece
from wallaroo.connectors.registry import sink_kind
from wallaroo.engine.stages.crash_guard import Function
from wallaroo.engine.stages.current_message import Origin
from wallaroo.engine.stages.outbox import AT_HAND, Outbox
from wallaroo.engine.stages.result_checks import checked_bytes
from wallaroo.engine.transport.dead_letter_record import Place
from wallaroo.errors import WallarooError
from wallaroo.interfaces import LINES, Decoder, Encoder, KafkaDecoder, SinkConfig, takes_message
from wallaroo.kafka_message import KafkaMessage


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
        text = (
            f"Pipeline {pipeline!r}, step {step!r} failed for the message {message!r}: {type(error).__name__}: {error}"
        )
        hint = python2_hints.hint(error)
        super().__init__(text if hint is None else f"{text}\n{hint}")
        self.pipeline = pipeline
        self.step = step
        self.message = message


class Raised(BaseException):
    """Carries a StepError past all handlers of user code's exceptions."""

    def __init__(self, error: StepError) -> None:
        super().__init__(error)
        self.error = error


class Direct(Outbox):
    """An outbox that does not capture printed output, and calls all functions: tests measure coverage, and debug."""

    inlines = False

    def watched(self, function: Function, label: str) -> Function:
        """Return a user's function; what it gives a sink is recorded here, and not in reruns, which send nothing."""
        encoder = getattr(function, "__self__", None)
        if isinstance(encoder, Recorder):
            function = cast("Function", encoder.record)
        return super().watched(function, label)

    def capturing(self) -> contextlib.AbstractContextManager[object]:
        """Leave printed output to the test."""
        return contextlib.nullcontext()


class Raising(Direct):
    """An outbox that raises errors instead of recording dead letters."""

    def fail(  # noqa: PLR0913 - the signature of `Outbox`
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


class CurrentInput:
    """The message being run (`Messages`); it may already be decoded."""

    def __init__(self) -> None:
        self._piece: Piece = (0, [])

    def put(self, position: int, message: Any) -> None:
        """Set the current message."""
        self._piece = (position, [message])

    def read(self, source: str, first: int, end: int, lane: int) -> Iterator[Piece]:  # noqa: ARG002 - there is only one
        """Yield the current message."""
        yield self._piece


@dataclass
class Source:
    """A source whose messages are sent by the test."""

    decoder: Decoder


@dataclass
class Sink:
    """A sink that only records."""

    encoder: Encoder
    name: str | None


class Feed:
    """A decoder that passes already decoded messages through."""

    framing = LINES
    """Nothing is framed in memory, so the value does not matter."""

    def __init__(self, decoder: Decoder | KafkaDecoder) -> None:
        self._decode: Any = decoder.decode
        self._takes_message = takes_message(decoder)

    def decode(self, bs: Any) -> Any:
        """Return the message, decoded if it is not decoded already."""
        if self._takes_message:
            if isinstance(bs, bytes):
                return self._decode(bs, KafkaMessage())
            is_pair = isinstance(bs, tuple) and len(bs) == 2 and isinstance(bs[1], KafkaMessage)
            return self._decode(*bs) if is_pair else bs
        return self._decode(bs) if isinstance(bs, bytes) else bs


class Recorder:
    """An encoder that can record its inputs and results, for the sink of a config."""

    def __init__(self, config: SinkConfig) -> None:
        self._encoder = config.encoder
        self._kind = sink_kind(config)
        self._pack = self._kind.packer(config) or checked_bytes
        self.outputs: list[Any] = []
        self.encoded: list[bytes] = []

    def encode(self, data: Any) -> bytes | None:
        """Encode an output."""
        encoded = self._encoder.encode(data)
        return None if encoded is None else self._pack(encoded)

    def record(self, data: Any) -> bytes | None:
        """Encode an output, and record both."""
        self.outputs.append(data)
        packed = self.encode(data)
        if packed is not None:
            self.encoded.append(self._kind.unpacked(packed))
        return packed
