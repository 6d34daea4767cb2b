"""Splits a stream of bytes into messages, with the framing of the source's decoder."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any

from wallaroo.errors import WallarooError
from wallaroo.interfaces import has_line_framing
from wallaroo.sizes import plural, readable_size

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_MESSAGE_SIZE = 64 << 20
"""The largest payload that is accepted: a longer one more likely means that the sender frames differently."""


class FramingError(WallarooError):
    """Bytes that cannot be split into messages; `complete` has the payloads before the bad one."""

    def __init__(self, reason: str, complete: list[bytes] | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.complete = complete or []


def framer_for(decoder: Any, max_message_size: int = MAX_MESSAGE_SIZE) -> Framer | LineFramer:
    """Return a framer for one connection, with the framing of a decoder.

    Raises:
        FramingError: The decoder cannot work.
    """
    try:
        lines = has_line_framing(decoder)
    except BaseException as error:
        raise FramingError(f"the decoder's framing() raised {_raised(error)}") from error
    return LineFramer(max_message_size) if lines else Framer(decoder, max_message_size)


class LineFramer:
    r"""Splits the bytes of one connection into lines, without their ends, LF or CRLF.

    >>> framer = LineFramer()
    >>> framer.feed(b"to be\nor\r\nnot"), framer.feed(b" to\n\nbe")
    ([b'to be', b'or'], [b'not to', b''])
    >>> framer.pending, framer.finish(), framer.pending
    (2, [b'be'], 0)
    """

    def __init__(self, max_message_size: int = MAX_MESSAGE_SIZE) -> None:
        self._max_message_size = max_message_size
        self._unfinished = bytearray()

    @property
    def pending(self) -> int:
        """Return the number of bytes of the unfinished line."""
        return len(self._unfinished)

    @property
    def lacking(self) -> str:
        """Return, as text, what the unfinished line lacks."""
        came = plural(self.pending, "byte")
        return f"{came} of a line have been received, and no newline after them: does the sender send one?"

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that `data` completes.

        Raises:
            FramingError: A line is longer than a message may be.
        """
        lines = data.split(b"\n")
        rest = lines.pop()
        most = len(self._unfinished) + len(data)
        if lines:
            if self._unfinished:
                lines[0] = b"".join((self._unfinished, lines[0]))
                self._unfinished = bytearray()
            if b"\r" in data or lines[0].endswith(b"\r"):
                lines = [line.removesuffix(b"\r") for line in lines]
        self._unfinished += rest
        if most > self._max_message_size:
            self._check_lengths(lines)
        return lines

    def finish(self) -> list[bytes]:
        """Return the last line, if it has no newline: the sender has ended its stream after it."""
        rest, self._unfinished = bytes(self._unfinished), bytearray()
        return [rest.removesuffix(b"\r")] if rest else []

    def _check_lengths(self, lines: list[bytes]) -> None:
        for number, line in enumerate(lines):
            if len(line) > self._max_message_size:
                raise self._too_long(len(line), lines[:number])
        # A CR may be part of its end.
        length = len(self._unfinished) - self._unfinished.endswith(b"\r")
        if length > self._max_message_size:
            raise self._too_long(length, lines)

    def _too_long(self, length: int, lines: list[bytes]) -> FramingError:
        return FramingError(
            f"a line has {length:,} bytes or more, and {readable_size(self._max_message_size)} are accepted "
            f"(--max-message-size); the sender probably does not end its messages with newlines",
            lines,
        )


class Framer:
    """Splits the bytes of one connection into frames, and returns the payloads of the complete ones.

    >>> class Decoder:
    ...     def header_length(self):
    ...         return 2
    ...     def payload_length(self, bs):
    ...         return int(bs)
    >>> framer = Framer(Decoder())
    >>> framer.feed(b"05hello00")
    [b'hello', b'']
    >>> framer.feed(b"03by")
    []
    >>> framer.pending
    4
    >>> framer.feed(b"e")
    [b'bye']
    """

    def __init__(self, decoder: Any, max_message_size: int = MAX_MESSAGE_SIZE) -> None:
        self._max_message_size = max_message_size
        self._header_length = _header_length(decoder)
        self._payload_length: Callable[[bytes], Any] = decoder.payload_length
        self._length_struct = _length_struct(decoder, self._header_length)
        # One buffer: an object per piece would need far more memory.
        self._unfinished = bytearray()
        self._needed = 0
        self._known_length: int | None = None

    @property
    def pending(self) -> int:
        """Return the number of bytes of the unfinished frame."""
        return len(self._unfinished)

    @property
    def lacking(self) -> str:
        """Return, as text, what the unfinished frame lacks."""
        if self._known_length is None:
            return f"{self.pending} of the {plural(self._header_length, 'byte')} of a header have been received."
        came = self.pending - self._header_length
        question = "is length_fmt the sender's?" if self._length_struct else "does the sender use this framing?"
        announced = plural(self._known_length, "byte")
        return f"its header announces {announced}, and {came:,} of them have been received: {question}"

    def finish(self) -> list[bytes]:
        """Return the messages that the end of the stream completes: none."""
        return []

    def feed(self, data: bytes) -> list[bytes]:
        """Return the payloads of the frames that `data` completes.

        Raises:
            FramingError: The decoder returned a length that no message can have.
        """
        if self._unfinished:
            if len(self._unfinished) + len(data) < self._needed:
                self._unfinished += data
                return []
            data = b"".join((self._unfinished, data))
            self._unfinished = bytearray()
        payloads: list[bytes] = []
        position = 0
        if self._known_length is not None:
            position = self._header_length + self._known_length
            payloads.append(data[self._header_length : position])
            self._known_length = None
        cut = self._cut_by_decoder if self._length_struct is None else self._cut_by_struct
        position = cut(data, position, payloads)
        if position < len(data):
            self._unfinished += memoryview(data)[position:]
            self._needed = self._header_length + (self._known_length or 0)
        return payloads

    def _cut_by_struct(self, data: bytes, position: int, payloads: list[bytes]) -> int:
        """Split frames whose header is a `struct`. This loop runs once for each message, so it must be fast."""
        assert self._length_struct is not None
        unpack_from = self._length_struct.unpack_from
        header_length = self._header_length
        max_message_size = self._max_message_size
        last_header = len(data) - header_length
        size = len(data)
        append = payloads.append
        while position <= last_header:
            (length,) = unpack_from(data, position)
            if not 0 <= length <= max_message_size:
                raise self._bad_length(length, payloads)
            start = position + header_length
            end = start + length
            if end > size:
                self._known_length = length
                break
            append(data[start:end])
            position = end
        return position

    def _cut_by_decoder(self, data: bytes, position: int, payloads: list[bytes]) -> int:
        """Split frames whose length a method of the decoder returns."""
        header_length = self._header_length
        while position < len(data) and position + header_length <= len(data):
            start = position + header_length
            length = self._ask_decoder(data[position:start], payloads)
            if start + length > len(data):
                self._known_length = length
                break
            payloads.append(data[start : start + length])
            position = start + length
        return position

    def _ask_decoder(self, header: bytes, payloads: list[bytes]) -> int:
        try:
            length = self._payload_length(header)
        except BaseException as error:
            # Also what would end the process, such as sys.exit: it affects one connection only.
            raise FramingError(f"the decoder's payload_length() raised {_raised(error)}", payloads) from error
        if not isinstance(length, int) or isinstance(length, bool):
            raise FramingError(
                f"the decoder's payload_length() returned {_shown(length)}, which is not an int", payloads
            )
        length = int.__int__(length)
        if not 0 <= length <= self._max_message_size or not header + bytes(length > 0):
            raise self._bad_length(length, payloads)
        return length

    def _bad_length(self, length: int, payloads: list[bytes]) -> FramingError:
        if length < 0:
            return FramingError(f"a header gives a negative message length, {_counted(length)}", payloads)
        if length == 0:
            return FramingError("the decoder has no header and gives messages no length", payloads)
        return FramingError(
            f"a header gives a message length of {_counted(length)} bytes, more than the "
            f"{readable_size(self._max_message_size)} that are accepted (--max-message-size); the sender probably "
            f"does not frame its messages as the decoder expects",
            payloads,
        )


def _header_length(decoder: Any) -> int:
    try:
        length = decoder.header_length()
    except BaseException as error:
        raise FramingError(f"the decoder's header_length() raised {_raised(error)}") from error
    if not isinstance(length, int) or isinstance(length, bool) or length < 0:
        raise FramingError(
            f"the decoder's header_length() returned {_shown(length)}; it must return a whole number of bytes"
        )
    return int.__int__(length)


def _length_struct(decoder: Any, header_length: int) -> Struct | None:
    """Return the decoder's `length_struct` if it describes the whole header as one int."""
    found = getattr(decoder, "length_struct", None)
    if not isinstance(found, Struct) or found.size != header_length or not header_length:
        return None
    fields = found.unpack(bytes(found.size))
    return found if len(fields) == 1 and isinstance(fields[0], int) and not isinstance(fields[0], bool) else None


def _raised(error: BaseException) -> str:
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - user code
        return name
    return f"{name}: {_short(text)}" if text else name


def _shown(value: Any) -> str:
    """Return a user's object as a line of text."""
    try:
        return _short(repr(value))
    except Exception:  # noqa: BLE001 - user code, or a number with too many digits to print
        return f"an object of class {type(value).__name__}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else f"{line[:200]}..."


def _counted(number: int) -> str:
    """Return a number with commas; a very large one as a power of two."""
    return f"{number:,}" if number.bit_length() <= 64 else f"{'-' if number < 0 else ''}2**{number.bit_length() - 1}"
