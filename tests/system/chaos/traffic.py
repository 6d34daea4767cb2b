"""Senders that write down what they send, and what they know to have been accepted."""

import contextlib
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

from tests.system.harness import PATIENCE, frame

from .oracle import Sent

KEYS = [f"key{number}" for number in range(24)]
_SENDERS = 3
_PAUSE_SECONDS = 0.05
_HUGE = 60_000

Address = tuple[str, int]


class Traffic:
    """Some senders that go on for as long as they are asked to, each with one connection after the other.

    A sender knows that all was accepted if it ended its stream and then saw the source end the connection as well. A
    connection that broke says nothing: any number of its first messages may have been accepted.
    """

    def __init__(self, seed: int, address: Callable[[], Address | None]) -> None:
        self.sent: dict[str, Sent] = {}
        self._address = address
        self._choose = random.Random(f"traffic {seed}")
        self._flowing = threading.Event()
        self._ending = False
        self._tears = 0
        self._lock = threading.Lock()
        self._flood = threading.Event()
        self._threads = [threading.Thread(target=self._send_on, args=(n,), daemon=True) for n in range(_SENDERS)]
        self._errors: list[BaseException] = []
        for thread in self._threads:
            thread.start()

    def flow(self) -> None:
        """Begin to send."""
        self._flowing.set()

    def tear(self) -> None:
        """Have the next senders die inside a frame."""
        with self._lock:
            self._tears += _SENDERS

    def flood(self, *, on: bool) -> None:
        """Send much more, or as before: long messages fill the segments of the log."""
        if on:
            self._flood.set()
        else:
            self._flood.clear()

    def give_up(self) -> None:
        """Send nothing more, without waiting for anything."""
        self._ending = True
        self._flowing.set()

    def end(self) -> None:
        """Let the streams under way come to their ends, and send nothing more."""
        self.give_up()
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "a sender hangs"
        assert not self._errors, self._errors

    def send(self, keys: list[str]) -> str | None:
        """Send messages with these keys on one connection; return its name, None if nobody listens."""
        name = f"single{len(self.sent)}"
        address = self._address()
        return name if address is not None and self._send(name, keys, self._choose, address) is not None else None

    def roll_call(self) -> list[str]:
        """Send a message for every key, which has to be accepted; return the beginnings of the lines they make."""
        with self._lock:
            self._tears = 0  # A death that found no sender in time is not for this one.
        deadline = time.monotonic() + PATIENCE
        # The ingress may be about to be started again.
        while (name := self.send(list(KEYS))) is None:
            assert time.monotonic() < deadline, "nobody accepts connections"
            time.sleep(_PAUSE_SECONDS)
        assert self.sent[name].accepted, "a connection broke although nothing happened to it"
        return [f"{key} {name} {number}" for number, key in enumerate(KEYS, 1)]

    def _send_on(self, sender: int) -> None:
        choose = random.Random(f"{self._choose.random()} {sender}")
        count = 0
        try:
            while self._flowing.wait(PATIENCE) and not self._ending:
                address = self._address()
                keys = choose.choices(KEYS, k=choose.choice([1, 30, 300]))
                if address is not None and self._send(f"{sender}.{count}", keys, choose, address) is not None:
                    count += 1
                time.sleep(choose.uniform(0, _PAUSE_SECONDS))
        except BaseException as error:  # noqa: BLE001 - told in the thread that asks for the end
            self._errors.append(error)

    def _send(self, name: str, keys: list[str], choose: random.Random, address: Address) -> Sent | None:
        """Send a stream on a connection of its own and return its record; None if nobody listens."""
        try:
            connection = socket.create_connection(address, timeout=PATIENCE)
        except OSError:
            return None
        padding = "." * (_HUGE if self._flood.is_set() else choose.choice([0, 10, 1000]))
        stream = b"".join(frame(f"{key} {name} {number} {padding}") for number, key in enumerate(keys, 1))
        record = self.sent[name] = Sent(keys)
        with connection, _not_minding_a_break():
            if self._is_torn():
                _die_inside_a_frame(connection, stream, choose)
                return record
            _send_in_pieces(connection, stream, choose)
            connection.shutdown(socket.SHUT_WR)
            # The source ends its side when it has accepted everything.
            record.accepted = connection.recv(1) == b""
        return record

    def _is_torn(self) -> bool:
        with self._lock:
            torn = self._tears > 0
            self._tears -= torn
            return torn


@contextlib.contextmanager
def _not_minding_a_break() -> Iterator[None]:
    """Let a connection break, but not hang."""
    try:
        yield
    except TimeoutError:
        raise
    except OSError:
        return


def _send_in_pieces(connection: socket.socket, stream: bytes, choose: random.Random) -> None:
    """Send with cuts anywhere, also inside headers."""
    begin = 0
    for _ in range(choose.randrange(4)):
        cut = choose.randint(begin, len(stream))
        connection.sendall(stream[begin:cut])
        begin = cut
    connection.sendall(stream[begin:])


def _die_inside_a_frame(connection: socket.socket, stream: bytes, choose: random.Random) -> None:
    """Send a part and end, either as a process does that ends, or as a machine does that is switched off."""
    _send_in_pieces(connection, stream[: choose.randrange(1, len(stream))], choose)
    if choose.random() < 0.5:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
