"""The interfaces of what users hand over: any object with these methods will do."""

from __future__ import annotations

from typing import Any, Protocol

LINES = "lines"
"""What the `framing` of a decoder is whose messages end with a newline each."""


class HeaderDecoder(Protocol):
    """Turns the bytes of a source into messages that have a header with their length in front."""

    def header_length(self) -> int:
        """Return the number of bytes in front of each payload."""

    def payload_length(self, bs: bytes) -> int:
        """Return the number of payload bytes that follow the header `bs`."""

    def decode(self, bs: bytes) -> Any:
        """Return the message in the payload `bs`, or None to drop it."""


class LineDecoder(Protocol):
    """Turns the bytes of a source into messages that end with a newline each."""

    @property
    def framing(self) -> Any:
        """Return "lines"; a method that does so will do as well."""

    def decode(self, bs: bytes) -> Any:
        """Return the message in the line `bs`, which has no newline, or None to drop it."""


Decoder = HeaderDecoder | LineDecoder
"""Turns the bytes of a source into messages, and says how they are framed."""


def has_line_framing(decoder: Any) -> bool:
    """Tell whether the messages of a decoder are lines.

    >>> class Lines:
    ...     framing = "lines"
    >>> has_line_framing(Lines()), has_line_framing(object())
    (True, False)
    """
    framing = getattr(decoder, "framing", None)
    return bool((framing() if callable(framing) else framing) == LINES)


class Encoder(Protocol):
    """Turns an output into what a sink takes."""

    def encode(self, data: Any) -> Any:
        """Return the bytes to send for `data`, or None to send nothing."""


class SourceConfig(Protocol):
    """Where a pipeline's messages come from."""

    decoder: Decoder


class SinkConfig(Protocol):
    """Where a pipeline's outputs go."""

    encoder: Encoder
