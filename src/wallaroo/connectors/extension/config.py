"""The configs of sources and sinks whose other half is a script."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wallaroo.connectors.address_config import AddressConfig

if TYPE_CHECKING:
    from wallaroo.interfaces import Encoder, ValueDecoder


@dataclass(eq=False)
class SourceExtensionConfig(AddressConfig):
    """A source whose messages come from scripts, which connect with a `SourceExtension`.

    The arguments are stored as given; building the application reports what is wrong with them.

    Args:
        host: The address to listen on.
        port: The port to listen on, as a string or a number; 0 lets the system pick a free one.
        decoder: Decodes what the script's encoder has made: a function with `@streaming_message_decoder` above it, or
            an object with `decode(message)`. Returning None drops the message.

    >>> from wallaroo.experimental import SourceExtensionConfig, streaming_message_decoder
    >>> @streaming_message_decoder
    ... def decode(message):
    ...     return message.decode("utf-8")
    >>> SourceExtensionConfig("127.0.0.1", "7100", decode).address
    ('127.0.0.1', 7100)
    """

    decoder: ValueDecoder


@dataclass(eq=False)
class SinkExtensionConfig(AddressConfig):
    """A sink whose outputs go to a script, which listens with a `SinkExtension`.

    The arguments are stored as given; building the application reports what is wrong with them.

    Args:
        host: The address that the script listens on.
        port: The port that the script listens on, as a string or a number.
        encoder: Turns an output into bytes, or text, for the script's decoder: a function with
            `@streaming_message_encoder` above it, or an object with `encode(data)`. Returning None sends nothing.
        name: The name of the sink, by which `to_sinks(..., choose=function)` picks it; no other sink of the pipeline
            may have it.

    >>> from wallaroo.experimental import SinkExtensionConfig, streaming_message_encoder
    >>> @streaming_message_encoder
    ... def encode(word_and_count):
    ...     return "%s %d" % word_and_count
    >>> SinkExtensionConfig(host="127.0.0.1", port=7200, encoder=encode).encoder(("why", 2))
    'why 2'
    """

    encoder: Encoder
    name: str | None = field(default=None)
