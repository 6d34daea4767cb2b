"""Whole applications as their users run them: `machida` as a process, real senders and receivers on loopback.

Nothing in here waits for a time to pass: it waits for what has to happen, and fails at once when the process has died.
"""

import base64
import contextlib
import json
import pickle
import re
import socket
import struct
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path

import psutil
from tools.free_port import free_port

from wallaroo.engine.directory.home import Home
from wallaroo.ingress.block_sequence import Segment, segment_firsts
from wallaroo.ingress.lanes import Lane

from ..processes import LEFT_SECONDS, MACHIDA, PATIENCE, Process, environment, is_alive  # noqa: TID252

READY = "Application has successfully initialized."
HERE = Path(__file__).parent
APPS = HERE / "apps"


def machida_command():
    """Return how to start machida: as it was installed, or, where it was not, straight from the sources."""
    installed = Path(sys.executable).with_name("machida")
    return [str(installed)] if installed.exists() else MACHIDA


def wait_until_free(home):
    """Wait until the directory of an application whose processes were killed is free."""
    deadline = time.monotonic() + LEFT_SECONDS
    while Home(home).in_use():
        assert time.monotonic() < deadline, f"{home} is still in use"
        time.sleep(0.01)


def family(run):
    """Return the processes that a run, or another process, has started."""
    return [process for process in psutil.Process(run.pid).children(recursive=True) if is_alive(process)]


def ingress_of(run):
    """Return the process that accepts connections, in a list; an empty one where it does not run."""
    return [process for process in family(run) if command_of(process)[1:] == ["-P", "-m", "wallaroo.ingress"]]


def jvm_of(run):
    """Return Spark's process, in a list; an empty one where it does not run."""
    return [process for process in family(run) if Path(*command_of(process)[:1]).name == "java"]


def busy_workers(run):
    """Return the Python processes that run tasks for a run or an executor: children of Spark's daemons."""
    parents = {}
    for process in family(run):
        with contextlib.suppress(psutil.NoSuchProcess):
            if command_of(process)[-2:] == ["wallaroo.engine.spark.worker_daemon", "pyspark.worker"]:
                parents[process] = process.ppid()
    daemons = {process.pid for process in parents}
    return [process for process, parent in parents.items() if parent in daemons]


def kill_all(processes):
    """Kill processes, of which some may end because others do."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def command_of(process):
    """Return a process's command line, an empty one if it ends while it is looked at."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


class Machida(Process):
    """An application that runs."""

    def __init__(self, *arguments, command=(), folder=APPS, paths=(), **variables):
        env = environment(*paths, **variables)
        super().__init__([*(command or machida_command()), *arguments], cwd=folder, env=env)

    def wait_until_ready(self):
        """Wait until the application says that it is ready."""
        self.wait_until(lambda: READY in self.output, "being ready")
        return self

    def address(self, pipeline):
        """Return the address that a pipeline's source listens on, as machida says it."""
        found = re.search(rf"listening +(\S+):(\d+) for '{re.escape(pipeline)}'", self.output)
        assert found, self.output
        return found[1], int(found[2])


class Receiver:
    """A plain server that keeps what each connection sends, in the order in which the connections came."""

    def __init__(self, address="127.0.0.1:0"):
        host, _, port = address.partition(":")
        self._server = socket.create_server((host, int(port)))
        # Connections inherit it. Little is on its way, so a receiver that stops reading is soon noticed.
        self._server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        self.address = "{}:{}".format(*self._server.getsockname())
        self.connections = []
        self._most = None
        self._held = threading.Condition()
        self._open = set()
        self._threads = []
        self._start(self._accept)

    def _start(self, target, *args):
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                received = bytearray()
                self._open.add(connection)
                self.connections.append(received)
                self._start(self._read, connection, received)

    def _read(self, connection, received):
        # A process that was killed may leave a reset instead of an end.
        with connection, contextlib.suppress(OSError):
            while self._may_read() and (data := connection.recv(1 << 16)):
                received += data
        self._open.discard(connection)

    def _may_read(self):
        with self._held:
            return self._held.wait_for(lambda: self._most is None or self.size < self._most)

    def hold_at(self, size):
        """Take nothing more after so many bytes; None: take everything again."""
        with self._held:
            self._most = size
            self._held.notify_all()

    @property
    def size(self):
        """Return how many bytes have come so far."""
        return sum(map(len, self.connections))

    def everything(self):
        """Return all that was sent, once the senders have ended their connections."""
        deadline = time.monotonic() + PATIENCE
        while self._open:
            assert time.monotonic() < deadline, "a connection was not ended"
            time.sleep(0.01)
        return b"".join(self.connections)

    def clean_up(self):
        """Close everything."""
        self.hold_at(None)
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE)


def frame(message):
    """Return a message with its length in front."""
    data = message.encode() if isinstance(message, str) else message
    return struct.pack(">I", len(data)) + data


def send(address, messages):
    """Send messages on one connection, and return when all of them have been accepted."""
    with socket.create_connection(address, timeout=PATIENCE) as connection:
        connection.sendall(b"".join(map(frame, messages)))
        connection.shutdown(socket.SHUT_WR)
        # The source closes its side once it has read all there is.
        assert connection.recv(1) == b""


def unused_address():
    """Return an address on which there is no listener."""
    return f"127.0.0.1:{free_port()}"


def refuses(address):
    """Return whether there is no listener at this address (any more)."""
    try:
        socket.create_connection(address, timeout=PATIENCE).close()
    except (ConnectionRefusedError, ConnectionResetError):  # The latter if the listener is closed at this very moment.
        return True
    return False


def send_at_the_same_time(address, *streams):
    """Send each stream of messages on a connection of its own, all at once."""
    errors = []

    def run(messages):
        try:
            send(address, messages)
        except BaseException as error:  # noqa: BLE001 - told in the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=(messages,)) for messages in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


def unframed(data):
    """Return the messages in a stream of framed ones."""
    messages = []
    while data:
        size = struct.unpack(">I", data[:4])[0]
        assert len(data) >= 4 + size, "the stream ends inside a message"
        messages.append(data[4 : 4 + size])
        data = data[4 + size :]
    return messages


def values_by_key(data, separator=" => "):
    """Return the numbers of lines such as `word => 3`, for each word in the order in which they came."""
    found = defaultdict(list)
    assert data.endswith(b"\n") or not data, data[-80:]
    for line in data.decode().splitlines():
        key, found_separator, number = line.rpartition(separator)
        assert found_separator, line
        found[key].append(int(number))
    return dict(found)


def messages_after_blocks(home, pipeline):
    """Return for the blocks that are in the sequence how many messages of a pipeline had been taken after each."""
    found = {}
    folder = home / "sequence"
    with contextlib.suppress(FileNotFoundError):
        number = json.loads((folder / "sources.json").read_text()).index(pipeline)
        for path in sorted(folder.glob("*.sequence")):
            segment = Segment(path)
            taken = segment.ends.get(Lane(number), 0)
            for block, _ in segment.records():
                taken = max([taken, *(each.end for each in block.ranges if each.source == number)])
                found[block.number] = taken
    return found


def messages_planned(home, pipeline):
    """Return how many messages of a pipeline are in blocks."""
    return max(messages_after_blocks(home, pipeline).values(), default=0)


def is_committed(home):
    """Return whether all blocks so far are committed, with their states."""
    path = home / "sequence" / f"{segment_firsts(home / 'sequence')[-1]:020d}.sequence"
    numbers = [block.number for block, _ in Segment(path).records()]
    commit = home / "commit.json"
    return commit.exists() and bool(numbers) and json.loads(commit.read_text())["block"] > numbers[-1]


def dead_letters(home):
    """Return the dead letters in an application's directory, but for what has no newline: that is being written."""
    path = home / "dead-letters.jsonl"
    *lines, _being_written = path.read_bytes().split(b"\n") if path.exists() else [b""]
    return [json.loads(line) for line in lines]


def payload_of(letter):
    """Return the bytes of the message in a dead letter."""
    return base64.b64decode(letter["payload"])


def message_of(letter):
    """Return the message in a dead letter."""
    return pickle.loads(payload_of(letter)) if letter["encoding"] == "pickle" else payload_of(letter)
