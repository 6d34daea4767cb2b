"""The decorators for the decoders and encoders of extensions: messages come whole, without headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from wallaroo.api.decorated import Decorated, P, R
from wallaroo.errors import WallarooError

if TYPE_CHECKING:
    from collections.abc import Callable

M = TypeVar("M")


class StreamDecoderError(WallarooError):
    """The decoder of a `SinkExtension` failed for a message; the error that it raised is the `__cause__`.

    The message counts as read: the next `read` returns the one after it.
    """


class MessageDecoder(Decorated[[bytes], M]):
    """The result of `@streaming_message_decoder`."""

    decorator = "@wallaroo.experimental.streaming_message_decoder"
    parameters = ("message",)
    class_prefix = "Decoder"

    def __init__(self, function: Callable[[bytes], M]) -> None:
        super().__init__(function)
        self.decode = function


class MessageEncoder(Decorated[P, R]):
    """The result of `@streaming_message_encoder`."""

    decorator = "@wallaroo.experimental.streaming_message_encoder"
    parameters = ("message",)
    class_prefix = "Encoder"

    def __init__(self, function: Callable[P, R]) -> None:
        super().__init__(function)
        self.encode = function


def streaming_message_decoder(function: Callable[[bytes], M]) -> MessageDecoder[M]:
    """Make a decoder for an extension out of a function that takes bytes and returns a message.

    Args:
        function: The function.

    Returns:
        A decoder that can be called like the function.

    >>> @streaming_message_decoder
    ... def text_decoder(message):
    ...     return message.decode("utf-8")
    >>> text_decoder(b"hello"), text_decoder.decode(b"hello")
    ('hello', 'hello')
    """
    return MessageDecoder(function)


def streaming_message_encoder(function: Callable[P, R]) -> MessageEncoder[P, R]:
    """Make an encoder for an extension out of a function that takes a message and returns bytes.

    It may return text as well, which is sent as UTF-8. Returning None sends nothing.

    Args:
        function: The function.

    Returns:
        An encoder that can be called like the function.

    >>> @streaming_message_encoder
    ... def text_encoder(message):
    ...     return message.encode("utf-8")
    >>> text_encoder("hello"), text_encoder.encode("hello")
    (b'hello', b'hello')
    """
    return MessageEncoder(function)
