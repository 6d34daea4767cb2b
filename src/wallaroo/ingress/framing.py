"""Cuts a stream of bytes into messages, as the source's decoder says."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any

from wallaroo.errors import WallarooError

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_MESSAGE_SIZE = 64 << 20
"""The largest payload that is accepted: a longer one is more likely a sender that frames in another way."""


class FramingError(WallarooError):
    """Bytes that cannot be cut into messages; `complete` holds the payloads in front of the bad one."""

    def __init__(self, reason: str, complete: list[bytes] | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.complete = complete or []


class Framer:
    """Takes the bytes of one connection as they come and gives the payloads of its complete frames.

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
        # The bytes of the unfinished frame stay in the pieces they came in until there are enough of them: a
        # large frame is copied once, however many pieces it comes in.
        self._pieces: list[bytes] = []
        self.pending = 0
        self._needed = 0
        self._known_length: int | None = None

    def feed(self, data: bytes) -> list[bytes]:
        """Return the payloads of the frames that `data` completes.

        Raises:
            FramingError: The decoder gives a length that no message can have.
        """
        if self._pieces:
            self._pieces.append(data)
            self.pending += len(data)
            if self.pending < self._needed:
                return []
            data = b"".join(self._pieces)
            self._pieces.clear()
        payloads: list[bytes] = []
        position = 0
        if self._known_length is not None:
            position = self._header_length + self._known_length
            payloads.append(data[self._header_length : position])
            self._known_length = None
        cut = self._cut_by_decoder if self._length_struct is None else self._cut_by_struct
        position = cut(data, position, payloads)
        self.pending = len(data) - position
        if self.pending:
            self._pieces.append(data[position:])
            self._needed = self._header_length + (self._known_length or 0)
        return payloads

    def _cut_by_struct(self, data: bytes, position: int, payloads: list[bytes]) -> int:
        """Cut frames whose header is a `struct`. This loop runs once for each message: keep it tight."""
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
        """Cut frames whose length the decoder's own method tells."""
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
        except Exception as error:
            reason = f"the decoder's payload_length() raised {type(error).__name__}: {error}"
            raise FramingError(reason, payloads) from error
        if not isinstance(length, int) or isinstance(length, bool):
            raise FramingError(f"the decoder's payload_length() returned {length!r}, which is not an int", payloads)
        if not 0 <= length <= self._max_message_size or not header + bytes(length > 0):
            raise self._bad_length(length, payloads)
        return length

    def _bad_length(self, length: int, payloads: list[bytes]) -> FramingError:
        if length < 0:
            return FramingError(f"a header gives a negative message length, {length}", payloads)
        if length == 0:
            return FramingError("the decoder has no header and gives messages no length", payloads)
        return FramingError(
            f"a header gives a message length of {length} bytes, more than the {self._max_message_size} that "
            f"are accepted; the sender probably does not send messages framed as the decoder expects",
            payloads,
        )


def _header_length(decoder: Any) -> int:
    try:
        length = decoder.header_length()
    except Exception as error:
        raise FramingError(f"the decoder's header_length() raised {type(error).__name__}: {error}") from error
    if not isinstance(length, int) or isinstance(length, bool) or length < 0:
        raise FramingError(f"the decoder's header_length() returned {length!r}; it must return a whole number of bytes")
    return length


def _length_struct(decoder: Any, header_length: int) -> Struct | None:
    """Return the decoder's `length_struct` if it is all there is to know: one int, the whole header."""
    found = getattr(decoder, "length_struct", None)
    if not isinstance(found, Struct) or found.size != header_length or not header_length:
        return None
    fields = found.unpack(bytes(found.size))
    return found if len(fields) == 1 and isinstance(fields[0], int) and not isinstance(fields[0], bool) else None
