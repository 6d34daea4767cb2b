"""The interfaces of what users hand over: any object with these methods will do."""

from __future__ import annotations

from typing import Any, Protocol


class Decoder(Protocol):
    """Turns the bytes of a source into messages, and says how they are framed."""

    def header_length(self) -> int:
        """Return the number of bytes in front of each payload."""

    def payload_length(self, bs: bytes) -> int:
        """Return the number of payload bytes that follow the header `bs`."""

    def decode(self, bs: bytes) -> Any:
        """Return the message in the payload `bs`, or None to drop it."""


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
