"""Senders and a receiver on sockets."""

import contextlib
import random
import socket
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.system.harness import PATIENCE, Machida, frame, messages_after_blocks

from .ledger import ledger_of
from .oracle import Known, Sent, Verdict, judge
from .outside import Connection, Frozen, Later, Outside
from .receiver import ChaosReceiver
from .schedule import PIPELINE, Fault, Strike


class TcpOutside(Outside):
    """A source that senders connect to, and a receiver for the sink, of an application with the directory `home`."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._receiver = ChaosReceiver(self._look)

    @property
    def sink(self) -> str:
        """Return the receiver's address."""
        return self._receiver.address

    @property
    def arguments(self) -> list[str]:
        """Return any port for the source, and the receiver's address."""
        return ["--in", "127.0.0.1:0", "--out", self._receiver.address]

    def connect(self, run: Machida, lane: int) -> Connection | None:
        """Connect to the source."""
        try:
            return _TcpConnection(socket.create_connection(run.address(PIPELINE), timeout=PATIENCE))
        except OSError:
            return None

    def take_note(self, home: Path) -> None:
        """Look which blocks are recorded as sent."""
        self._receiver.take_note()

    def _look(self, address: str) -> Known:
        recorded, part = ledger_of(self._home, address)
        return Known(recorded, messages_after_blocks(self._home, PIPELINE), part)

    @property
    def size(self) -> int:
        """Return how many bytes the receiver has got."""
        return self._receiver.size

    def latest(self, size: int) -> bytes:
        """Return the last bytes of the last connection."""
        return self._receiver.latest(size)

    def catch_sending(self) -> None:
        """Have the receiver not read."""
        self._receiver.hold()

    @property
    def is_behind(self) -> bool:
        """Return whether the application's system could not deliver everything yet."""
        return self._receiver.is_behind

    def let_go(self) -> None:
        """Have the receiver read again."""
        self._receiver.go_on()

    def strike(self, strike: Strike, later: Later, frozen: Frozen) -> bool:
        """Have the receiver go away, or not read, for a while."""
        if strike.fault is Fault.CLOSE_RECEIVER:
            self._receiver.close(frozen)
            later(strike.seconds, self._receiver.open)
        else:
            self._receiver.hold()
            later(strike.seconds, self._receiver.go_on)
        return True

    def wait_for_the_end(self) -> None:
        """Wait until every connection to the receiver has been ended."""
        self._receiver.wait_for_the_end()

    def judge(self, sent: Mapping[str, Sent]) -> Verdict:
        """Judge what the receiver's connections were sent."""
        return judge(sent, self._receiver.received)

    def clean_up(self) -> None:
        """Close everything."""
        self._receiver.clean_up()


class _TcpConnection:
    """A connection to the source; if it breaks, any number of its first messages may have been accepted."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def send(self, messages: list[bytes], choose: random.Random) -> bool:
        """Send everything; it is accepted if the source, too, ends its side."""
        with self._connection, _not_minding_a_break():
            self._send_in_pieces(b"".join(map(frame, messages)), choose)
            self._connection.shutdown(socket.SHUT_WR)
            # The source ends its side when it has accepted everything.
            return self._connection.recv(1) == b""
        return False

    def die(self, messages: list[bytes], choose: random.Random) -> None:
        """End inside a frame, either as a process does that ends, or as a machine does that is switched off."""
        stream = b"".join(map(frame, messages))
        with self._connection, _not_minding_a_break():
            self._send_in_pieces(stream[: choose.randrange(1, len(stream))], choose)
            if choose.random() < 0.5:
                self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def _send_in_pieces(self, stream: bytes, choose: random.Random) -> None:
        """Send with cuts anywhere, also inside headers."""
        begin = 0
        for _ in range(choose.randrange(4)):
            cut = choose.randint(begin, len(stream))
            self._connection.sendall(stream[begin:cut])
            begin = cut
        self._connection.sendall(stream[begin:])


@contextlib.contextmanager
def _not_minding_a_break() -> Iterator[None]:
    """Let a connection break, but not hang."""
    try:
        yield
    except TimeoutError:
        raise
    except OSError:
        return
