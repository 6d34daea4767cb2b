"""The half of a sink that is a script: it reads the outputs of applications."""

from __future__ import annotations

import contextlib
import errno
import logging
import select
import socket
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Literal, Self

from wallaroo.addresses import port_number
from wallaroo.connectors.extension.channel import Channel
from wallaroo.connectors.extension.protocol import (
    PART,
    VERSION,
    Hello,
    ProtocolError,
    hello,
    unpack_part,
)
from wallaroo.errors import AddressError, WallarooError
from wallaroo.experimental.arguments import codec_function
from wallaroo.experimental.codecs import StreamDecoderError
from wallaroo.experimental.sink_streams import Peer, Stream
from wallaroo.introspection import a_kind_of
from wallaroo.notices import REPORT_AGAIN_SECONDS, Condition

if TYPE_CHECKING:
    from collections.abc import Callable

_LOGGER = logging.getLogger("wallaroo.experimental")

_MOST_FRAME = (1 << 32) - 1
_CONFIRM_SECONDS = 0.001
"""How often confirmations are sent, at most, while messages are at hand."""
_HELLO_SECONDS = 10.0
_MOST_GREETING = 64
_MOST_STREAMS = 10_000
_MOST_NAME = 100
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_ACCEPT_AGAIN_SECONDS = 0.5


class SinkExtension:
    """Receives the outputs of applications that have a `SinkExtensionConfig`.

    Each message is read once. What is not confirmed when the script ends, or is killed, the next script gets. Without
    `confirm="manual"` a message is confirmed when `read` is called again, so that the message that was being processed
    is not lost.

    Args:
        decoder: Turns the bytes that the application's encoder has made into a message: a function with
            `@streaming_message_decoder` above it, an object with `decode(message)`, or any function.
        confirm: "manual" if the script calls `confirm()` when it has processed what it has read.

    >>> from wallaroo.experimental import streaming_message_decoder
    >>> @streaming_message_decoder
    ... def text_decoder(message):
    ...     return message.decode("utf-8")
    >>> with SinkExtension(text_decoder) as extension:
    ...     extension.listen("127.0.0.1", 0)
    ...     extension.read(timeout=0) is None
    True
    """

    def __init__(self, decoder: Any, *, confirm: Literal["automatic", "manual"] = "automatic") -> None:
        if confirm not in {"automatic", "manual"}:
            raise WallarooError(f'confirm is "automatic" or "manual"; got {a_kind_of(confirm)}.')
        self._decode: Callable[[bytes], Any] = codec_function(decoder, "decode", "decoder")
        self._is_automatic = confirm == "automatic"
        self._listener: socket.socket | None = None
        self._poll = select.poll()
        self._accepts_later = False
        """Whether the listener is left out for a while."""
        self._exhausted = Condition(_LOGGER.warning, interval=REPORT_AGAIN_SECONDS)
        self._greeting: dict[int, Peer] = {}
        """The connections that have not said hello, by their file descriptors; the oldest first."""
        self._peers: dict[int, Peer] = {}
        """The applications that are connected, by their file descriptors."""
        self._streams: dict[str, Stream] = {}
        self._ready: deque[Peer] = deque()
        """Those that have messages at hand, in turn."""
        self._current: Peer | None = None
        """The one whose messages are read."""

    def listen(self, host: str, port: str | int, backlog: int = 0) -> None:
        """Listen for applications, which connect and send their outputs.

        Args:
            host: The host of the `SinkExtensionConfig`.
            port: The port.
            backlog: How many connections may wait to be accepted, as in `socket.listen`.

        Raises:
            AddressError: It is not possible to listen there.
        """
        if self._listener is not None:
            raise WallarooError("This SinkExtension listens already: make another one for another address.")
        try:
            family = socket.getaddrinfo(host, port_number(port), type=socket.SOCK_STREAM)[0][0]
            listener = socket.create_server((host, port_number(port)), family=family, backlog=backlog)
        except OSError as error:
            raise AddressError(
                f"The script cannot listen on {host}:{port}: {error.strerror or error}. Is it running already?"
            ) from error
        listener.setblocking(False)
        self._listener = listener
        self._poll.register(listener, select.POLLIN)

    @property
    def address(self) -> tuple[str, int]:
        """The host and the port that it listens on."""
        host, port = self._listening().getsockname()[:2]
        return host, port

    def read(self, timeout: float | None = None) -> Any:
        """Return the next message; without `confirm="manual"`, those before it are confirmed.

        Args:
            timeout: How many seconds to wait at most for a message.

        Returns:
            What the decoder returns for it; None if none has come in time.

        Raises:
            StreamDecoderError: The decoder failed for the message.
        """
        peer = self._current
        if peer is not None and self._is_automatic and (now := time.monotonic()) - peer.told_at > _CONFIRM_SECONDS:
            self._confirm(now)
        if peer is None or not peer.messages:
            peer = self._turn(timeout)
            if peer is None:
                return None
        message = peer.messages.popleft()
        try:
            return self._decode(message)
        except Exception as error:
            raise StreamDecoderError(
                f"The decoder failed for a message of {len(message):,} bytes with {type(error).__name__}: {error}"
            ) from error

    def confirm(self) -> None:
        """Confirm everything that has been read: no other script will get it."""
        self._confirm(time.monotonic())

    def close(self) -> None:
        """Disconnect; without `confirm="manual"` the last message that was read is confirmed."""
        if self._is_automatic:
            self.confirm()
        for peer in [*self._peers.values(), *self._greeting.values()]:
            self._drop(peer)
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self._is_automatic:
            self._is_automatic = False
            self._confirm(time.monotonic(), but=1)
        self.close()

    def _listening(self) -> socket.socket:
        if self._listener is None:
            raise WallarooError("This SinkExtension does not listen: call listen(host, port) first.")
        return self._listener

    def _turn(self, timeout: float | None) -> Peer | None:
        """Go on to the next messages at hand, of each application in turn, or wait for some; return whose they are."""
        if self._is_automatic:
            self._confirm(time.monotonic())
        peer, self._current = self._current, None
        if peer is not None and self._peers.get(peer.descriptor) is peer:
            self._poll.register(peer.descriptor, select.POLLIN)
            self._guarded(self._put, peer)
        if not self._ready:
            self._wait(timeout)
        if not self._ready:
            return None
        self._current = self._ready.popleft()
        return self._current

    def _confirm(self, now: float, but: int = 0) -> None:
        """Confirm what has been read, without the last message if `but` is 1."""
        for peer in self._peers.values():
            peer.read_to(but if peer is self._current else 0)
        # Also of an application that is not connected now: it is told when it is.
        for stream in self._streams.values():
            stream.confirmed = stream.read
        for peer in list(self._peers.values()):
            self._guarded(lambda peer: peer.tell(now), peer)

    def _wait(self, timeout: float | None) -> None:
        """Wait until a message is at hand."""
        listener = self._listening()
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._ready:
            left = None if deadline is None else max(deadline - time.monotonic(), 0)
            for peer in self._peers.values():
                if peer.channel.is_sending:
                    self._poll.modify(peer.descriptor, select.POLLIN | select.POLLOUT)
            most = _ACCEPT_AGAIN_SECONDS if self._accepts_later else None
            events = self._poll.poll(min((each * 1000 for each in (left, most) if each is not None), default=None))
            if self._accepts_later:
                self._accepts_later = False
                self._poll.register(listener, select.POLLIN)
            for descriptor, event in events:
                if descriptor == listener.fileno():
                    self._accept(listener)
                elif (found := self._peers.get(descriptor) or self._greeting.get(descriptor)) is not None:
                    self._guarded(self._flush if event == select.POLLOUT else self._receive, found)
            if not events and left is not None and left <= 0:
                return

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
            peer = Peer(Channel(connection, _MOST_FRAME))
        except OSError as error:
            if error.errno in _EXHAUSTED:
                # Until then it would stay ready to be accepted.
                self._poll.unregister(listener)
                self._accepts_later = True
                self._exhausted.begin(f"The script cannot accept a connection: {error.strerror}. It is tried again.")
            return  # Otherwise it is gone again.
        self._exhausted.end("The script accepts connections again.")
        self._greeting[peer.descriptor] = peer
        self._poll.register(peer.descriptor, select.POLLIN)
        if len(self._greeting) > _MOST_GREETING:
            self._drop(next(iter(self._greeting.values())))

    def _flush(self, peer: Peer) -> None:
        """Send what the application has not taken before."""
        peer.channel.flush()
        if not peer.channel.is_sending:
            self._poll.modify(peer.descriptor, select.POLLIN)

    def _receive(self, peer: Peer) -> None:
        """Take what has come from an application, or from somebody else."""
        peer.channel.flush()
        peer.waiting.extend(peer.channel.receive())
        if peer.descriptor in self._greeting and peer.waiting:
            self._welcome(peer)
        self._put(peer)

    def _guarded(self, step: Callable[[Peer], None], peer: Peer) -> None:
        """Do something with a connection; close it, and nothing else, if it is broken or what has come is nonsense."""
        try:
            step(peer)
        except ProtocolError as error:
            _LOGGER.warning("The connection from %s was closed: %s.", peer.channel.peer, error.reason)
            self._drop(peer)
        except OSError:
            self._drop(peer)

    def _welcome(self, peer: Peer) -> None:
        """Answer the hello of an application: what is confirmed of its outputs need not be sent."""
        said = peer.waiting.popleft()
        assert isinstance(said, Hello)
        name = said.says.get("stream")
        if said.version != VERSION:
            peer.channel.send(hello("sink"))
        said.check_version("the application")
        if said.says.get("role") != "application" or not isinstance(name, str) or len(name) > _MOST_NAME:
            raise ProtocolError("its hello is not that of an application")
        peer.stream = self._stream_of(name)
        for other in [each for each in self._peers.values() if each.stream is peer.stream]:
            self._drop(other)  # The application has lost that connection, and does not use it any more.
        peer.told = peer.stream.confirmed.order
        peer.channel.send(hello("sink", confirmed=list(peer.stream.confirmed)))
        self._peers[peer.descriptor] = self._greeting.pop(peer.descriptor)

    def _stream_of(self, name: str) -> Stream:
        """Return a stream, as it was left; of many, the one that was connected before all others is forgotten."""
        self._streams[name] = stream = self._streams.pop(name, None) or Stream()
        if len(self._streams) > _MOST_STREAMS:
            connected = {id(peer.stream) for peer in self._peers.values()}
            unused = (each for each in self._streams if id(self._streams[each]) not in connected and each != name)
            if (oldest := next(unused, None)) is not None:
                del self._streams[oldest]
        return stream

    def _put(self, peer: Peer) -> None:
        """Put messages at hand, without those that have been read."""
        while peer.waiting and not peer.messages:
            came = peer.waiting.popleft()
            if isinstance(came, Hello) or came.kind != PART:
                raise ProtocolError("it sent what only a script sends")
            part = unpack_part(came.body)
            end = part.first + len(part.payloads)
            if not part.payloads or end > part.total:
                raise ProtocolError("it sent messages that its block does not have")
            peer.take(part)
        if peer.stream.confirmed.order > peer.told:
            # It was confirmed before it came again.
            peer.tell(time.monotonic())
        if peer.messages:
            # Nothing more is taken from this application until they are read.
            self._poll.unregister(peer.descriptor)
            self._ready.append(peer)

    def _drop(self, peer: Peer) -> None:
        peer.forget()
        with contextlib.suppress(KeyError):
            self._poll.unregister(peer.descriptor)
        self._greeting.pop(peer.descriptor, None)
        self._peers.pop(peer.descriptor, None)
        with contextlib.suppress(ValueError):
            self._ready.remove(peer)
        peer.channel.close()
