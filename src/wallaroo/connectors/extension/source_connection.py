"""A script that is connected to a source: what it sends, and what it is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wallaroo.connectors.extension.protocol import (
    ASK,
    BYE,
    MESSAGES,
    REFUSED,
    Frame,
    Hello,
    Incoming,
    OtherVersionError,
    ProtocolError,
    frame,
    hello,
    pack_durable,
    pack_stands,
    unpack_ask,
    unpack_messages,
)
from wallaroo.connectors.tcp.source_connection import Connection
from wallaroo.ingress.framing import FramingError

if TYPE_CHECKING:
    from wallaroo.connectors.extension.source import ExtensionIntake

_MOST_QUESTIONS = 10_000
_SENSELESS = "sent what makes no sense"
_FOR_GOOD = {_SENSELESS, "sent what cannot be framed"}
"""Why connections are closed, if the same would come again."""

Answers = tuple[int, list[tuple[int, int | None]]]
"""Up to which message everything is durable, and the answers to questions: their numbers, and sequences."""


class Script:
    """A script that is connected: the receiver of its connection."""

    def __init__(self, source: ExtensionIntake) -> None:
        self._source = source
        self._connection: _Connection
        self._id: str | None = None
        self._accepted = 0
        self._told = 0
        self._answers: list[tuple[int, int | None]] = []
        self._later: list[Any] = []
        """What has come, and waits until the log takes messages."""
        self._is_gone = False

    def connection(self, framer: Any, unfinished: Any) -> Connection:
        """Return the connection, which this receives from."""
        self._connection = _Connection(self, framer, unfinished)
        return self._connection

    @property
    def has_written_all(self) -> bool:
        """Return whether everything that was received is in the log."""
        return self._source.has_written_all

    def opened(self, connection: Connection) -> None:
        """Handle a new connection."""
        self._source.opened(connection)

    def refused(self, connection: Connection, kind: str, reason: str) -> None:
        """Handle a connection that is closed from this side."""
        self._source.refused(connection, kind, reason)

    def closed(self, connection: Connection) -> None:
        """Handle the end of the connection."""
        self._is_gone = True
        if self._id is not None:
            self._source.left(self._id, self)
        self._source.closed(connection)

    def leave(self) -> None:
        """Close the connection: the script has another one."""
        self._is_gone = True
        self._connection.close()

    def received(self, payloads: list[Any]) -> None:
        """Handle what the script has sent: a hello, and frames."""
        try:
            for each in payloads:
                if self._is_gone:
                    return
                if self._id is None:
                    self._greet(each)
                elif self._later or (each.kind == MESSAGES and self._source.is_held):
                    self._later.append(each)
                else:
                    self._handle(each)
        except OtherVersionError as error:
            self.give_up("of another version", error.reason, hello("application"))
        except ProtocolError as error:
            self.give_up(_SENSELESS, error.reason)
        if self._later and not self._is_gone:
            self._connection.hold(self._source)
            self._source.hold_script(self)
        if self._accepted > self._told or self._answers:
            self._source.is_waiting(self)

    def resume(self) -> None:
        """Go on with what has waited, and read more."""
        later, self._later = self._later, []
        self._connection.release(self._source)
        self.received(later)

    def answers(self) -> Answers:
        """Return what to tell the script when everything that is in the log now is on the disk."""
        answers, self._answers = self._answers, []
        return self._accepted, answers

    def put_back(self, answers: Answers) -> None:
        """Take back what could not be told."""
        self._answers = answers[1] + self._answers

    def tell(self, answers: Answers) -> None:
        """Tell the script what is durable."""
        accepted, stands = answers
        if self._is_gone or self._connection.transport is None:
            return
        frames = [pack_stands(*each) for each in stands]
        if accepted > self._told:
            self._told = accepted
            frames.append(pack_durable(accepted))
        if frames:
            self._connection.transport.write(b"".join(frames))

    def _greet(self, said: Hello) -> None:
        said.check_version("the script")
        script = said.says.get("script")
        if said.says.get("role") != "source" or not isinstance(script, str) or not 0 < len(script) <= 100:
            raise ProtocolError("its hello is not that of a SourceExtension")
        self._id = script
        self._connection.is_script = True
        self._source.greeted(script, self)
        self._accepted = self._source.standing.number(script)
        assert self._connection.transport is not None
        self._connection.transport.write(hello("application", accepted=self._accepted, largest=self._source.largest))

    def _handle(self, came: Frame) -> None:
        assert self._id is not None
        if came.kind == MESSAGES:
            messages = unpack_messages(came.body)
            if any(len(payload) > self._source.largest for payload in messages.payloads):
                raise ProtocolError(
                    f"it sent a message larger than {self._source.largest:,} bytes (--max-message-size)"
                )
            self._accepted = self._source.take(self._id, messages)
        elif came.kind == ASK:
            if len(self._answers) >= _MOST_QUESTIONS:
                raise ProtocolError("it asks for more partitions than can be answered")
            question, partition = unpack_ask(came.body)
            self._answers.append((question, self._source.standing.sequence(partition)))
        elif came.kind == BYE:
            self._source.standing.forget(self._id)
        else:
            raise ProtocolError("it sent a frame of a kind that scripts do not send")

    def give_up(self, kind: str, reason: str, last: bytes = b"") -> None:
        """Close the connection, and report why."""
        self._is_gone = True
        self._connection.give_up(kind, f": {reason}.", last)


class _Connection(Connection):
    """The connection of a script, which is not read while the script does not read the answers."""

    is_script = False
    """Whether it has said hello."""

    def pause_writing(self) -> None:
        """Stop reading: there are answers that the script does not read."""
        self.hold("unread answers")

    def give_up(self, kind: str, reason: str, last: bytes = b"") -> None:
        """Close the connection, report the reason, and tell it to a script, which would send the same again."""
        if self.is_script and kind in _FOR_GOOD:
            last = frame(REFUSED, reason.removeprefix(": ").encode())
        super().give_up(kind, reason, last)

    def resume_writing(self) -> None:
        """Go on: the script has read them."""
        self.release("unread answers")


class Frames:
    """Splits the bytes of a connection into a hello and frames, as framers of the ingress do."""

    def __init__(self, most: int) -> None:
        self._incoming = Incoming(most)

    @property
    def pending(self) -> int:
        """Return the number of bytes of an unfinished frame."""
        return self._incoming.pending

    @property
    def lacking(self) -> str:
        """Return, as text, what the unfinished frame lacks."""
        return self._incoming.lacking

    def feed(self, data: bytes) -> list[Any]:
        """Return what `data` completes."""
        try:
            return list(self._incoming.feed(data))
        except ProtocolError as error:
            raise FramingError(error.reason, list(error.complete)) from error  # type: ignore[arg-type]

    def finish(self) -> list[Any]:
        """Return what the end of the stream completes: nothing."""
        return []
