"""The commands as real processes, and plain sockets for the other side."""

import re
import socket
import subprocess
import threading

import pytest
from tests.processes import PATIENCE, WALLAROO


@pytest.fixture
def wallaroo():
    """Start `wallaroo ...` as a process of its own; whatever still runs at the end is stopped."""
    started = []

    def start(*args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, **options):
        process = subprocess.Popen(
            [*WALLAROO, *map(str, args)], stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, **options
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


class Listener:
    """A plain server that collects everything each connection sends, one connection after the other."""

    def __init__(self, connections=1):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self.socket.getsockname())
        self.received = []
        self._thread = threading.Thread(target=self._serve, args=(connections,), daemon=True)
        self._thread.start()

    def _serve(self, connections):
        for _ in range(connections):
            connection, _ = self.socket.accept()
            with connection:
                parts = []
                while data := connection.recv(1 << 20):
                    parts.append(data)
            self.received.append(b"".join(parts))

    def everything(self):
        """Return what the connections sent, once all of them have ended."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        return self.received


@pytest.fixture
def listener():
    made = []

    def make(connections=1):
        made.append(Listener(connections))
        return made[-1]

    yield make
    for each in made:
        each.socket.close()


@pytest.fixture
def receive(wallaroo):
    """Start `wallaroo receive` on a free port; return the process and the port once it listens."""

    def start(*args, **options):
        process = wallaroo("receive", "127.0.0.1:0", *args, **options)
        line = process.stderr.readline().decode()
        match = re.fullmatch(r"listening on 127\.0\.0\.1:(\d+)\n", line)
        assert match, line
        return process, int(match[1])

    return start


@pytest.fixture
def framed():
    """Frame messages the slow and obvious way."""

    def frame(messages, framing="u32be"):
        size = int(framing[1:3].rstrip("b")) // 8
        order = "little" if framing.endswith("le") else "big"
        return b"".join([len(message).to_bytes(size, order) + message for message in messages])

    return frame
