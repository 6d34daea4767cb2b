"""An application and a receiver that helps it, both killed in the middle of a block: the output is complete, once.

While it runs: who could reach it, and what could others on the machine see of it?
"""

import contextlib
import os
import socket
import stat
import threading
from collections import defaultdict
from pathlib import Path

import psutil
import pytest
from tests.processes import WALLAROO

from .harness import Process, environment, send, values_by_key
from .harness import family as children

LOOPBACK = {"127.0.0.1", "::ffff:127.0.0.1", "::1"}


class Line:
    """The line between a sink and its receiver, which may be held after some bytes, be cut, and swallow answers."""

    def __init__(self):
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        self.address = "{}:{}".format(*self._server.getsockname())
        self.receiver = None
        self.answers = True
        self.swallowed = 0
        self.size = 0
        self._most = None
        self._held = threading.Condition()
        self._open = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                one, _ = self._server.accept()
                try:
                    other = socket.create_connection(self.receiver)
                except OSError:
                    one.close()
                    continue
                self._open |= {one, other}
                for ends in ((one, other, False), (other, one, True)):
                    threading.Thread(target=self._carry, args=ends, daemon=True).start()

    def _carry(self, source, target, are_answers):
        with contextlib.suppress(OSError):
            while self._may_carry() and (data := source.recv(1 << 16)):
                self.size += len(data)
                if self.answers or not are_answers:
                    target.sendall(data)
                else:
                    self.swallowed += len(data)
        self._end(source, target)

    @staticmethod
    def _end(*connections):
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def cut(self):
        """End the connections that there are."""
        self._end(*self._open)

    def _may_carry(self):
        with self._held:
            return self._held.wait_for(lambda: self._most is None or self.size < self._most)

    def hold_after(self, more):
        """Carry only so many bytes more; None: everything again."""
        with self._held:
            self._most = None if more is None else self.size + more
            self._held.notify_all()

    def is_held(self):
        return self._most is not None and self.size >= self._most

    def clean_up(self):
        self.hold_after(None)
        self._end(self._server, *self._open)
        for end in (self._server, *self._open):
            end.close()


class App:
    """The application `sequences`, whose three sinks are one address, and `wallaroo receive` behind the line."""

    def __init__(self, machida, folder):
        self._machida = machida
        self.home = folder / "home"
        self.output = folder / "output"
        self.line = Line()
        self._receivers = []
        self.sent = defaultdict(list)

    @property
    def receiver(self):
        return self._receivers[-1]

    def start(self):
        sinks = ",".join([self.line.address] * 3)
        arguments = ["--in", "127.0.0.1:0,127.0.0.1:0", "--out", sinks, "--resilience-dir", self.home]
        return self._machida("--application-module", "sequences", "--effectively-once", *arguments)

    def start_receiver(self):
        arguments = ["receive", "127.0.0.1:0", "--effectively-once", "--output", self.output]
        self._receivers.append(Process([*WALLAROO, *arguments], env=environment()))
        self.receiver.wait_until(lambda: "listening on " in self.receiver.output, "listening")
        host, _, port = self.receiver.output.split()[2].rpartition(":")
        self.line.receiver = (host, int(port))

    def send(self, run, number, more):
        """Send messages to both pipelines, and return when all of them have been accepted."""
        messages = []
        for index in range(number):
            key = f"x{index % 30}"
            self.sent[key].append(more)
            messages.append(f"{key} {len(self.sent[key])} {more}")
        self.sent["bee"] += ["bee"] * number
        send(run.address("words"), ["bee"] * number)
        send(run.address("steps"), messages)

    def expected(self):
        """Return for each key all counts, and all lines of the steps, in order."""
        counts = {key: list(range(1, len(some) + 1)) for key, some in self.sent.items()}
        lines = {
            key: [f"{key}: {number} by 1, {number} in all {more}" for number, more in enumerate(some, 1)]
            for key, some in self.sent.items()
            if key != "bee"
        }
        return counts, lines

    def expected_size(self):
        counts, lines = self.expected()
        return sum(len(f"{key} => {count}\n") for key in counts for count in counts[key]) + sum(
            len(line) + 1 for of_key in lines.values() for line in of_key
        )

    def wait_for_everything(self, run):
        size = self.expected_size()
        run.wait_until(lambda: self.output.exists() and self.output.stat().st_size >= size, "all results")

    def written(self):
        """Return what `expected` returns, out of the receiver's file."""
        counts, lines = [], defaultdict(list)
        for line in self.output.read_text().splitlines():
            if " => " in line:
                counts.append(line)
            else:
                lines[line.partition(":")[0]].append(line)
        return values_by_key("".join(f"{line}\n" for line in counts).encode()), lines

    def clean_up(self):
        self.line.clean_up()
        for receiver in self._receivers:
            receiver.clean_up()


@pytest.fixture
def app(machida, tmp_path):
    app = App(machida, tmp_path)
    yield app
    app.clean_up()


def family(run):
    return [psutil.Process(run.pid), *children(run)]


def connections(processes, kind):
    """Yield what these processes have open; some may end while they are looked at."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            yield from process.net_connections(kind)


def check_who_can_reach(run, home):
    """Check where the application listens, and return the folder of its sockets."""
    processes = family(run)
    listening = {
        connection.laddr for connection in connections(processes, "inet") if connection.status == psutil.CONN_LISTEN
    }
    assert {address.ip for address in listening} <= LOOPBACK
    assert {run.address("words"), run.address("steps")} <= {(address.ip, address.port) for address in listening}
    [java] = [process.cmdline() for process in processes if process.name() == "java"]
    assert "spark.authenticate=true" in java
    assert not any("secret" in argument for argument in java)
    paths = {connection.laddr for connection in connections(processes, "unix") if connection.laddr}
    [folder] = {path.rpartition("/")[0] for path in paths}
    for place, _, files in os.walk(home):
        for path in (Path(place), *(Path(place) / file for file in files)):
            with contextlib.suppress(FileNotFoundError):
                assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    return Path(folder)


@pytest.mark.timeout(900)
def test_an_application_and_its_receiver_are_killed_and_the_output_is_there_once(app):
    app.start_receiver()
    run = app.start().wait_until_ready()
    folder = check_who_can_reach(run, app.home)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    app.send(run, 2000, "few")
    app.wait_for_everything(run)

    # The line is cut when the receiver has a block and the application does not know: it is sent again, and dropped.
    app.line.answers = False
    app.send(run, 2000, "more")
    run.wait_until(lambda: app.line.swallowed, "a block at the receiver")
    app.line.answers = True
    app.line.cut()
    run.wait_until(lambda: "is back; the block was sent again." in run.output, "sending the block again")
    app.wait_for_everything(run)

    # The application is killed while its receiver has a part of a large block.
    app.line.hold_after(3_000_000)
    app.send(run, 12_000, "-" * 1000)
    run.wait_until(app.line.is_held, "the middle of a block")
    run.kill()
    app.line.hold_after(5_000_000)

    # The receiver is killed while it is sent the block again.
    run = app.start()
    run.wait_until(app.line.is_held, "the middle of the block once more")
    app.receiver.kill()
    app.start_receiver()
    app.line.hold_after(None)

    run.wait_until_ready()
    assert not folder.exists()
    app.send(run, 2000, "few")
    app.wait_for_everything(run)
    run.stop()
    app.receiver.ask_to_stop()
    assert app.receiver.exit_code() == 0
    assert app.written() == app.expected()
    assert app.output.stat().st_size == app.expected_size()
