"""The connector classes of the original's last generation, on the protocol of extensions.

A *stream* is a partition, and its *point of reference*, where a source would go on, is a sequence.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections import deque
from pathlib import Path
from typing import Any, NamedTuple

from wallaroo.errors import WallarooError
from wallaroo.experimental.source_extension import SourceExtension

__all__ = [
    "AtLeastOnceSourceConnector",
    "BaseSource",
    "FramedFileReader",
    "Message",
    "MultiSourceConnector",
    "Stream",
]


class Stream(NamedTuple):
    """A stream of messages: its number in the script, its name, and up to where the application has it."""

    id: int
    name: str
    point_of_ref: int


class Message(NamedTuple):
    """A message of a stream; its id is the stream's point of reference after it, and greater than that before it."""

    stream_id: int
    message_id: int
    event_time: int = 0
    key: bytes | None = None
    message: bytes = b""


class AtLeastOnceSourceConnector:
    """Sends streams of messages to the source of an application, which drops what it has had of them.

    Scripts derive from it and override `stream_opened`, `stream_closed` and `stream_acked`.

    Args:
        version: What the script calls its version; both sides compare that of the protocol instead.
        cookie: Not used: the application listens on the loopback interface, or where its user has allowed more.
        program_name: The name of the script.
        instance_name: The name of this process.
        host: The host of the application's source.
        port: The port of the application's source.
        delay: Not used.

    >>> connector = AtLeastOnceSourceConnector("0.0.1", "", "script", "first", "127.0.0.1", 7100)
    >>> connector.write(Message(1, 10, message=b"hello"))
    Traceback (most recent call last):
    wallaroo.errors.WallarooError: The stream 1 is not open: call notify(stream_id, stream_name, point_of_ref) first.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - those of the original.
        self,
        version: str,
        cookie: str,
        program_name: str,
        instance_name: str,
        host: str,
        port: str | int,
        delay: float = 0,
    ) -> None:
        self.version, self.cookie, self.delay = version, cookie, delay
        self.program_name, self.instance_name = program_name, instance_name
        self.host, self.port = host, port
        self._extension = SourceExtension(bytes)
        self._streams: dict[int, Stream] = {}
        self._unacknowledged: deque[tuple[int, int, int]] = deque()

    def connect(self) -> None:
        """Connect to the application; wait until it is there, however long that takes."""
        self._extension.connect(self.host, self.port)

    def notify(self, stream_id: int, stream_name: str | None = None, point_of_ref: int = 0) -> Stream:
        """Open a stream; `stream_opened` is called with where it goes on.

        Args:
            stream_id: The number of the stream in this script.
            stream_name: Its name, by which the application knows it in every run of the script.
            point_of_ref: Where it begins, if the application has nothing of it.

        Returns:
            The stream, with the point of reference that the application has.
        """
        name = str(stream_id) if stream_name is None else stream_name
        known = self._extension.resume_from(name)
        stream = Stream(stream_id, name, point_of_ref if known is None else known)
        self._streams[stream_id] = stream
        self.stream_opened(stream)
        return stream

    def write(self, message: Message) -> int:
        """Send a message of a stream that is open.

        Args:
            message: The message. It is not sent if the application has what follows it.

        Returns:
            The number of the message, as `SourceExtension.write` returns it.
        """
        stream = self._open(message.stream_id)
        number = self._extension.write(message.message, stream.name, message.message_id)
        self._unacknowledged.append((number, message.stream_id, message.message_id))
        self._tell_acknowledged()
        return number

    def end_of_stream(self, stream_id: int) -> None:
        """Close a stream when the application has all of it on its disk; `stream_closed` is called then.

        Args:
            stream_id: Its number.
        """
        self._open(stream_id)
        self._extension.wait_acknowledged()
        self._tell_acknowledged()
        self.stream_closed(self._streams.pop(stream_id))

    def join(self) -> None:
        """Wait until the application has everything on its disk."""
        self._extension.wait_acknowledged()
        self._tell_acknowledged()

    def close(self) -> None:
        """Do as `join` does, and disconnect."""
        self.join()
        self._extension.close()

    def stream_opened(self, stream: Stream) -> None:
        """Do something when a stream is open: messages after its point of reference are to be sent.

        Args:
            stream: The stream.
        """

    def stream_closed(self, stream: Stream) -> None:
        """Do something when a stream is closed.

        Args:
            stream: The stream.
        """

    def stream_acked(self, stream: Stream) -> None:
        """Do something when the application has more of a stream on its disk.

        Args:
            stream: The stream, with its new point of reference.
        """

    def _open(self, stream_id: int) -> Stream:
        if stream_id not in self._streams:
            raise WallarooError(
                f"The stream {stream_id} is not open: call notify(stream_id, stream_name, point_of_ref) first."
            )
        return self._streams[stream_id]

    def _tell_acknowledged(self) -> None:
        acknowledged: dict[int, int] = {}
        while self._unacknowledged and self._unacknowledged[0][0] <= self._extension.acknowledged:
            _, stream_id, point_of_ref = self._unacknowledged.popleft()
            acknowledged[stream_id] = point_of_ref
        for stream_id, point_of_ref in acknowledged.items():
            if stream_id in self._streams and point_of_ref > self._streams[stream_id].point_of_ref:
                self._streams[stream_id] = self._streams[stream_id]._replace(point_of_ref=point_of_ref)
                self.stream_acked(self._streams[stream_id])


class BaseSource(ABC):
    """A source for a `MultiSourceConnector`: an iterator that can be set to a point of reference."""

    name: str
    """The name of its stream."""

    def __iter__(self) -> BaseSource:
        return self

    @abstractmethod
    def __next__(self) -> tuple[bytes, int]:
        """Return the next message, and the point of reference after it."""

    @abstractmethod
    def reset(self, pos: int = 0) -> None:
        """Go to a point of reference.

        Args:
            pos: The point.
        """

    def close(self) -> None:  # noqa: B027 - most hold nothing.
        """Release what the source holds."""


class MultiSourceConnector(AtLeastOnceSourceConnector):
    """Sends the messages of several sources, in turn, each as a stream of its own.

    Its arguments are those of `AtLeastOnceSourceConnector`. `add_source` takes a source, and `join` sends what all of
    them have.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._sources: dict[int, BaseSource] = {}
        self._last_id = 0

    def add_source(self, source: BaseSource) -> None:
        """Add a source, which goes on where the application has its stream.

        Args:
            source: The source.
        """
        self._last_id += 1
        stream = self.notify(self._last_id, source.name)
        source.reset(stream.point_of_ref)
        self._sources[stream.id] = source

    def remove_source(self, source: BaseSource) -> None:
        """End the stream of a source, and close the source.

        Args:
            source: The source.
        """
        for stream_id in [each for each, known in self._sources.items() if known is source]:
            del self._sources[stream_id]
            self.end_of_stream(stream_id)
            source.close()

    def join(self) -> None:
        """Send the messages of all sources, until they have no more and the application has all of them on its disk."""
        while self._sources:
            for stream_id, source in list(self._sources.items()):
                try:
                    message, point_of_ref = next(source)
                except StopIteration:
                    self.remove_source(source)
                else:
                    self.write(Message(stream_id, point_of_ref, message=message))
        super().join()


class FramedFileReader(BaseSource):
    r"""A source for the messages in a file, each with its length in front, as a big-endian 32-bit number.

    Args:
        filename: The file.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(b"\0\0\0\2to\0\0\0\2be")
    ...     file.flush()
    ...     list(FramedFileReader(file.name))
    [(b'to', 6), (b'be', 12)]
    """

    _header = struct.Struct(">I")

    def __init__(self, filename: str) -> None:
        self.name = str(filename)
        self._file = Path(filename).open("rb")  # noqa: SIM115 - closed at its end, or by close().

    def __next__(self) -> tuple[bytes, int]:
        """Return the next message, and where it ends; what is incomplete is no message."""
        header = self._file.read(self._header.size)
        if len(header) == self._header.size:
            (length,) = self._header.unpack(header)
            message = self._file.read(length)
            if len(message) == length:
                return message, self._file.tell()
        self._file.close()
        raise StopIteration

    def reset(self, pos: int = 0) -> None:
        """Go to a position in the file.

        Args:
            pos: The position.
        """
        self._file.seek(pos)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
