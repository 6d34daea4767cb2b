"""The decorators that make decoders and encoders out of functions."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from wallaroo.api.decorated import Decorated, P, R, function_name
from wallaroo.errors import WallarooParameterError
from wallaroo.introspection import MISSING, a_kind_of
from wallaroo.protocols import LINES

if TYPE_CHECKING:
    from collections.abc import Callable

M = TypeVar("M")


class FramedDecoder(Decorated[[bytes], M]):
    """What `@decoder` makes: it says how messages are framed, and turns the bytes of each into a message.

    `length_struct` reads the length out of a header, for framing without a call of user code per message.
    """

    decorator = "@wallaroo.decoder"
    parameters = ("bs",)

    def __init__(self, function: Callable[[bytes], M], header_length: int, length_fmt: str) -> None:
        super().__init__(function)
        self.length_struct = _length_struct(header_length, length_fmt, function_name(function))
        self.decode = function

    def header_length(self) -> int:
        """Return the number of bytes in front of each payload."""
        return self.length_struct.size

    def payload_length(self, bs: bytes) -> int:
        """Return the number of payload bytes that follow the header `bs`."""
        length: int = self.length_struct.unpack(bs)[0]
        return length

    def __getstate__(self) -> dict[str, Any]:
        # A Struct cannot be pickled; its format can.
        return {**self.__dict__, "length_struct": self.length_struct.format}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, length_struct=struct.Struct(state["length_struct"]))


class LinesDecoder(Decorated[[bytes], M]):
    """What `@decoder(framing="lines")` makes: each line of the stream is a message."""

    decorator = "@wallaroo.decoder"
    parameters = ("bs",)

    def __init__(self, function: Callable[[bytes], M]) -> None:
        super().__init__(function)
        self.framing = LINES
        self.decode = function


class EncoderFunction(Decorated[P, R]):
    """What `@encoder` makes: it turns an output into what a sink sends."""

    decorator = "@wallaroo.encoder"
    parameters = ("data",)

    def __init__(self, function: Callable[P, R]) -> None:
        super().__init__(function)
        self.encode = function


@overload
def decoder(header_length: Callable[[bytes], M], /) -> FramedDecoder[M]: ...
@overload
def decoder(header_length: int = 4, length_fmt: str = ">I") -> Callable[[Callable[[bytes], M]], FramedDecoder[M]]: ...
@overload
def decoder(*, framing: Literal["lines"]) -> Callable[[Callable[[bytes], M]], LinesDecoder[M]]: ...
def decoder(header_length: Any = MISSING, length_fmt: Any = MISSING, *, framing: Any = MISSING) -> Any:
    r"""Make a decoder out of a function that takes the bytes of a payload and returns a message.

    In front of each payload there is a header that holds the payload's length. Without arguments (with or
    without parentheses) the header is a big-endian 32-bit number. With `framing="lines"` there is no header, and each
    line is a payload, so that `nc` can send messages. Returning None drops the message.

    Args:
        header_length: The number of bytes of the header.
        length_fmt: The format of the header, as the module `struct` writes it: one whole number.
        framing: "lines" where each message ends with a newline, LF or CRLF, which the function does not get to see. A
            last line without one counts when the sender ends its stream behind it.

    Returns:
        The decoder; or, where arguments are given, the decorator that makes it.

    Raises:
        WallarooParameterError: The arguments contradict each other, or do not describe a header.

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
        _check_framing(framing, header_length, length_fmt)
        return LinesDecoder
    length_fmt = ">I" if length_fmt is MISSING else length_fmt
    if callable(header_length):
        return FramedDecoder(header_length, 4, length_fmt)
    size = 4 if header_length is MISSING else header_length
    return lambda function: FramedDecoder(function, size, length_fmt)


def _check_framing(framing: Any, header_length: Any, length_fmt: Any) -> None:
    """Refuse a framing that is not known, or is given together with a header."""
    if framing != LINES:
        raise WallarooParameterError(
            f'@wallaroo.decoder: framing must be "lines", where each message ends with a newline; got '
            f"{a_kind_of(framing)}. Leave it out where each message has a header in front."
        )
    if header_length is not MISSING or length_fmt is not MISSING:
        raise WallarooParameterError(
            '@wallaroo.decoder: with framing="lines" messages have no header. Write @wallaroo.decoder(framing="lines") '
            "alone, or leave framing out."
        )


def encoder(function: Callable[P, R]) -> EncoderFunction[P, R]:
    r"""Make an encoder out of a function that takes an output and returns the bytes to send.

    Returning None sends nothing.

    >>> @encoder
    ... def encode(word_and_count):
    ...     return b"%s => %d\n" % word_and_count
    >>> encode((b"hello", 2))
    b'hello => 2\n'
    """
    return EncoderFunction(function)


def _length_struct(header_length: Any, length_fmt: Any, function: str) -> struct.Struct:
    where = f"@wallaroo.decoder on {function}"
    example = 'write @wallaroo.decoder(header_length=4, length_fmt=">I")'
    if not isinstance(header_length, int) or isinstance(header_length, bool) or header_length < 1:
        raise WallarooParameterError(
            f"{where}: header_length must be a whole number of bytes, 1 or more; got "
            f"{a_kind_of(header_length)}. For example, {example}."
        )
    try:
        layout = struct.Struct(length_fmt)
    except (struct.error, TypeError) as error:
        raise WallarooParameterError(
            f"{where}: length_fmt must be a format of the module struct; got "
            f"{a_kind_of(length_fmt)} ({error}). For example, {example}."
        ) from error
    if layout.size != header_length:
        raise WallarooParameterError(
            f"{where}: header_length is {header_length}, but length_fmt {length_fmt!r} describes "
            f"{layout.size} bytes. Make them agree; for example, {example}."
        )
    values = layout.unpack(bytes(layout.size))
    if len(values) != 1 or not isinstance(values[0], int) or isinstance(values[0], bool):
        raise WallarooParameterError(
            f"{where}: length_fmt {length_fmt!r} must describe one whole number, the length of the payload. "
            f"For example, {example}."
        )
    return layout
