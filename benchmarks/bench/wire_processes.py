"""What the sender and the receiver do in their processes; `wires` has the handles to them.

Both keep to one clock, the system's monotonic one, which is the same in all processes.
"""

from __future__ import annotations

import array
import mmap
import select
import socket
import struct
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

_READ_SIZE = 1 << 20
_LINGER = 600.0


class Arrivals(NamedTuple):
    """When bytes came: after `times[i]` (in ns) there were `totals[i]` of them."""

    times: array.array[int]
    totals: array.array[int]


class Schedule(NamedTuple):
    """Messages at a steady rate: message number i is due at `start_ns + i / rate`, and says so itself.

    Its key is `k<number>`. In each row of as many messages as there are keys every key comes once, so it is known how
    often a key has come before. `first` is the number of messages that were sent before in other schedules.
    """

    number: int
    rate: float
    keys: int
    first: int
    start_ns: int
    as_lines: bool = False

    def due(self, index: int) -> int:
        """Return when a message is due."""
        return self.start_ns + int(index * 1e9 / self.rate)

    def index(self, due: int) -> int:
        """Return the message that is due at this time."""
        return round((due - self.start_ns) * self.rate / 1e9)

    def key(self, index: int) -> int:
        """Return the number in the key of a message."""
        # A step that shares no factor with the number of keys meets all of them, in a scattered order.
        return (self.first + index) * 7_919 % self.keys

    def count(self, index: int) -> int:
        """Return how often the key of a message has come, this time included."""
        return (self.first + index) // self.keys + 1

    def message(self, index: int) -> bytes:
        """Return a message."""
        return b"k%d %d" % (self.key(index), self.due(index))

    def wire_form(self, index: int) -> bytes:
        """Return a message as it is sent over a socket."""
        message = self.message(index)
        return message + b"\n" if self.as_lines else struct.pack(">I", len(message)) + message


def receive(commands: Connection, output: Path | None) -> None:
    """Accept connections and read from them until told to stop; answers commands in the meantime."""
    # The process that would stop it may have died.
    with suppress(EOFError, ConnectionError), socket.create_server(("127.0.0.1", 0)) as server:
        commands.send(server.getsockname())
        with Path(output or "/dev/null").open("wb", buffering=0) as file:
            _FromSockets(commands, server, file).run()


class Receiving:
    """What has come so far, and the commands about it."""

    def __init__(self, commands: Connection, file: Any) -> None:
        self._commands = commands
        self._file = file
        self._total = 0
        self._arrivals = Arrivals(array.array("q"), array.array("q"))
        self._awaited: int | None = None

    def arrived(self, content: memoryview | bytes) -> None:
        """Note what has come just now."""
        now = time.monotonic_ns()
        self._total += len(content)
        self._arrivals.times.append(now)
        self._arrivals.totals.append(self._total)
        self._file.write(content)
        if self._awaited is not None and self._total >= self._awaited:
            self._awaited = None
            self._commands.send(now)

    def obey(self, command: str, argument: Any = None) -> bool:
        """Follow a command; return whether to continue."""
        match command:
            case "total":
                last = self._arrivals.times[-1] if self._total else 0
                self._commands.send((self._total, last))
            case "wait":
                if self._total >= argument:
                    self._commands.send(self._arrivals.times[-1])
                else:
                    self._awaited = argument
            case "give up":
                self._awaited = None
                self._commands.send(None)
            case "arrivals":
                self._commands.send(self._arrivals)
            case "stop":
                return False
        return True


class _FromSockets(Receiving):
    def __init__(self, commands: Connection, server: socket.socket, file: Any) -> None:
        super().__init__(commands, file)
        self._server = server
        self._connections: list[socket.socket] = []
        self._buffer = memoryview(bytearray(_READ_SIZE))

    def run(self) -> None:
        while True:
            wanted = [self._commands, self._server, *self._connections]
            for ready in select.select(wanted, [], [])[0]:
                if ready is self._commands:
                    if not self.obey(*self._commands.recv()):
                        return
                elif ready is self._server:
                    self._connections.append(self._server.accept()[0])
                else:
                    self._read(ready)

    def _read(self, connection: socket.socket) -> None:
        try:
            size = connection.recv_into(self._buffer)
        except ConnectionError:
            size = 0
        if not size:
            self._connections.remove(connection)
            connection.close()
            return
        self.arrived(self._buffer[:size])


def send(commands: Connection) -> None:
    """Send what is asked for until told to stop; answers with the times of the first and of the last byte."""
    sending = _Sending()
    with suppress(EOFError, ConnectionError):
        while (command := commands.recv())[0] != "stop":
            try:
                answer = sending.obey(*command)
            except OSError as error:
                answer = error
            commands.send(answer)


class _Sending:
    def __init__(self) -> None:
        self._server: socket.socket | None = None
        self._connection: socket.socket | None = None

    def obey(self, command: str, *arguments: Any) -> Any:
        match command:
            case "file":
                return _send_file(*arguments)
            case "listen":
                self._server = socket.create_server(("127.0.0.1", 0))
                return self._server.getsockname()
            case "connect":
                (address,) = arguments
                self._connection = socket.create_connection(address) if address else self._server.accept()[0]
                return None
            case "schedule":
                return _send_on_schedule(self._connection, *arguments)
        raise ValueError(command)


def _send_file(address: tuple[str, int], path: Path, begin: int, end: int) -> tuple[int, int]:
    """Send a part of a file; the last time is that at which all of it was accepted."""
    if begin == end:
        return 0, 0
    with socket.create_connection(address) as connection, path.open("rb") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        started = time.monotonic_ns()
        with memoryview(content) as view, view[begin:end] as part:
            connection.sendall(part)
        _finish(connection)
        return started, time.monotonic_ns()


def _send_on_schedule(connection: socket.socket, schedule: Schedule) -> tuple[int, int]:
    """Send each message when it is due, or as soon after that as the connection takes it."""
    messages = [schedule.wire_form(index) for index in range(schedule.number)]
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sent = 0
    while sent < schedule.number:
        now = time.monotonic_ns()
        if now < schedule.due(sent):
            # At high rates it matters little when exactly a message leaves, and much how many calls there are.
            time.sleep(max((schedule.due(sent) - now) / 1e9, 0.0005))
            now = time.monotonic_ns()
        due = min(int((now - schedule.start_ns) * schedule.rate / 1e9) + 1, schedule.number)
        connection.sendall(b"".join(messages[sent:due]))
        sent = due
    ended = time.monotonic_ns()
    if not schedule.as_lines:  # Those who read lines take the end of a connection for an error.
        _finish(connection)
        connection.close()
    return schedule.start_ns, ended


def _finish(connection: socket.socket) -> None:
    """Say that this is all, and wait until the other side has taken it and closes."""
    connection.shutdown(socket.SHUT_WR)
    connection.settimeout(_LINGER)
    connection.recv(1)
