"""The decorators that make decoders and encoders out of functions."""

from __future__ import annotations

import inspect
import struct
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from wallaroo.api.decorated import Decorated, P, R
from wallaroo.interfaces import LINES
from wallaroo.introspection import MISSING, a_kind_of, accepts
from wallaroo.kafka_message import KafkaMessage
from wallaroo.sizes import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

M = TypeVar("M")


class FramedDecoder(Decorated[[bytes], M]):
    """The result of `@decoder`: defines how messages are framed, and decodes each.

    `length_struct` allows framing without a call of user code for each message.
    """

    decorator = "@wallaroo.decoder"
    parameters = ("bs",)
    class_prefix = "Decoder"

    def __init__(self, function: Callable[[bytes], M], header_length: int, length_fmt: str) -> None:
        super().__init__(function)
        self._header = header_length, length_fmt
        self.decode = function

    @cached_property
    def length_struct(self) -> struct.Struct:
        """The struct that reads the length of the payload from a header."""
        return struct.Struct(self._header[1])

    def header_length(self) -> int:
        """Return the number of bytes in front of each payload."""
        return self.length_struct.size

    def payload_length(self, bs: bytes) -> int:
        """Return the number of payload bytes that follow the header `bs`."""
        length: int = self.length_struct.unpack(bs)[0]
        return length

    def decoration_mistakes(self) -> Iterator[str]:
        """Yield a sentence for each mistake in how the function was decorated."""
        yield from super().decoration_mistakes()
        for mistake in _header_mistakes(*self._header):
            yield f"{self.decorator} on {self.__name__}: {mistake}. For example, write {_EXAMPLE}"

    def __getstate__(self) -> dict[str, Any]:
        # A Struct cannot be pickled; it is recreated from its format.
        return {name: value for name, value in self.__dict__.items() if name != "length_struct"}


class LinesDecoder(Decorated[[bytes], M]):
    """The result of `@decoder(framing="lines")`: each line of the stream is a message."""

    decorator = "@wallaroo.decoder"
    parameters = ("bs",)
    class_prefix = "Decoder"

    def __init__(self, function: Callable[[bytes], M], given: tuple[Any, Any, Any] = (LINES, MISSING, MISSING)) -> None:
        super().__init__(function)
        self.framing = LINES
        self.decode = function
        self._given = given

    def decoration_mistakes(self) -> Iterator[str]:
        """Yield a sentence for each mistake in how the function was decorated."""
        yield from super().decoration_mistakes()
        for mistake in _framing_mistakes(*self._given):
            yield f"{self.decorator} on {self.__name__}: {mistake}"


class MessageDecoderFunction(Decorated[[bytes, KafkaMessage], M]):
    """The result of `@decoder` on a function with two parameters: decodes messages from Kafka."""

    decorator = "@wallaroo.decoder"
    class_prefix = "Decoder"
    parameters = ("bs", "message")

    def __init__(self, function: Callable[[bytes, KafkaMessage], M]) -> None:
        super().__init__(function)
        self.decode = function


class EncoderFunction(Decorated[P, R]):
    """The result of `@encoder`: turns an output into what a sink sends."""

    decorator = "@wallaroo.encoder"
    parameters = ("data",)
    class_prefix = "Encoder"

    def __init__(self, function: Callable[P, R]) -> None:
        super().__init__(function)
        self.encode = function


@overload
def decoder(function: Callable[[bytes], M], /) -> FramedDecoder[M]: ...
@overload
def decoder(function: Callable[[bytes, KafkaMessage], M], /) -> MessageDecoderFunction[M]: ...
@overload
def decoder(header_length: int = 4, length_fmt: str = ">I") -> Callable[[Callable[[bytes], M]], FramedDecoder[M]]: ...
@overload
def decoder(*, framing: Literal["lines"]) -> Callable[[Callable[[bytes], M]], LinesDecoder[M]]: ...
def decoder(header_length: Any = MISSING, length_fmt: Any = MISSING, *, framing: Any = MISSING) -> Any:
    r"""Make a decoder out of a function that takes the bytes of a payload and returns a message.

    In front of each payload there is a header that holds the payload's length. Without arguments (with or
    without parentheses) the header is a big-endian 32-bit number. With `framing="lines"` there is no header, and each
    line is a payload, so that `nc` can send messages. Returning None drops the message.

    For a Kafka source the function gets the value of a message, whatever the header or framing. With a second
    parameter it also gets a `wallaroo.KafkaMessage`, with the key, the timestamp, and so on.

    Args:
        header_length: The number of bytes of the header.
        length_fmt: The format of the header, in the syntax of the module `struct`: one whole number.
        framing: "lines" if each message ends with a newline, LF or CRLF, which is not passed to the function. A last
            line without a newline counts if the sender ends its stream after it.

    Returns:
        A decorator, or, without parentheses, its result: a `wallaroo.Decoder` that can be called like the function.

    >>> @decoder(header_length=2, length_fmt=">H")
    ... def decode(bs):
    ...     return bs.decode("utf-8")
    >>> decode.header_length(), decode.payload_length(b"\x00\x05"), decode(b"hello")
    (2, 5, 'hello')
    >>> @decoder(framing="lines")
    ... def decode_line(bs):
    ...     return bs.decode("utf-8")
    >>> decode_line.framing, decode_line(b"hello")
    ('lines', 'hello')
    """
    if framing is not MISSING:
        return partial(_decoder_of, LinesDecoder, given=(framing, header_length, length_fmt))
    length_fmt = ">I" if length_fmt is MISSING else length_fmt
    if callable(header_length):
        return _decoder_of(FramedDecoder, header_length, header_length=4, length_fmt=length_fmt)
    size = 4 if header_length is MISSING else header_length
    return partial(_decoder_of, FramedDecoder, header_length=size, length_fmt=length_fmt)


def _decoder_of(kind: Callable[..., Any], function: Any, **how: Any) -> Any:
    """Return a decoder of this kind, unless the function is for messages from Kafka: these have no framing."""
    is_for_kafka = callable(function) and not inspect.isclass(function) and not accepts(function, 1)
    return MessageDecoderFunction(function) if is_for_kafka and accepts(function, 2) else kind(function, **how)


def _framing_mistakes(framing: Any, header_length: Any, length_fmt: Any) -> Iterator[str]:
    """Yield the mistakes of a framing that is unknown, or is given together with a header."""
    if framing != LINES:
        yield (
            f'framing must be "lines", where each message ends with a newline; got {a_kind_of(framing)}. Leave it out '
            "where each message has a header in front"
        )
    elif header_length is not MISSING or length_fmt is not MISSING:
        yield (
            'with framing="lines" messages have no header: write @wallaroo.decoder(framing="lines") alone, or leave '
            "framing out"
        )


def encoder(function: Callable[P, R]) -> EncoderFunction[P, R]:
    r"""Make an encoder out of a function that takes an output and returns the bytes to send.

    It may return text as well, which is sent as UTF-8. Returning None sends nothing.

    Args:
        function: The function.

    Returns:
        A `wallaroo.Encoder` that is called like the function.

    >>> @encoder
    ... def encode(word_and_count):
    ...     return b"%s => %d\n" % word_and_count
    >>> encode((b"hello", 2))
    b'hello => 2\n'
    """
    return EncoderFunction(function)


_EXAMPLE = '@wallaroo.decoder(header_length=4, length_fmt=">I")'


def _header_mistakes(header_length: Any, length_fmt: Any) -> Iterator[str]:
    if not isinstance(header_length, int) or isinstance(header_length, bool) or header_length < 1:
        yield f"header_length must be a whole number of bytes, 1 or more; got {a_kind_of(header_length)}"
        return
    try:
        layout = struct.Struct(length_fmt)
    except (struct.error, TypeError) as error:
        yield f"length_fmt must be a format of the module struct; got {a_kind_of(length_fmt)} ({error})"
        return
    if layout.size != header_length:
        yield f"header_length is {header_length}, but length_fmt {length_fmt!r} describes {plural(layout.size, 'byte')}"
        return
    values = layout.unpack(bytes(layout.size))
    if len(values) != 1 or not isinstance(values[0], int) or isinstance(values[0], bool):
        yield f"length_fmt {length_fmt!r} must describe one whole number, the length of the payload"
