"""Every process of an application: which there are, what each listens on, and what happens when one dies."""

import contextlib
import os
import re
import signal
import socket
import struct
from pathlib import Path

import psutil
import pytest
from tests.processes import run_python

from .harness import PATIENCE, Machida, Receiver, kill_all, send, wait_until_free

NOBODY = 65534


class Application:
    """An application that answers each message with itself."""

    def __init__(self, home):
        self.home = home
        self._receiver = Receiver()
        places = ["--in", "127.0.0.1:0", "--out", self._receiver.address, "--resilience-dir", home]
        self.run = Machida("--application-module", "stubborn", *places).wait_until_ready()
        self._said = 0

    def answers(self):
        """Check that messages come back."""
        self._said += 1
        text = f"message {self._said}"
        before = self._receiver.size
        send(self.run.address("words"), [text])
        self.run.wait_until(lambda: self._receiver.size == before + len(text) + 1, f"the answer to {text}")

    def processes(self, pattern):
        """Return the processes whose command lines match."""
        return [process for process in self.run.everything() if re.search(pattern, " ".join(process.cmdline()))]

    def ports(self, name="java"):
        """Return the ports on which processes of a name listen."""
        return sorted(
            connection.laddr.port
            for process in self.run.everything()
            if process.name() == name
            for connection in process.net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN
        )

    def clean_up(self):
        """End whatever still runs."""
        self.run.clean_up()
        self._receiver.clean_up()


@pytest.fixture(scope="module")
def application(tmp_path_factory):
    made = Application(tmp_path_factory.mktemp("every") / "home")
    yield made
    made.clean_up()


def listening(process):
    """Return what a process listens on: ports, and paths of Unix sockets."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for connection in process.net_connections("all"):
            if connection.family == socket.AF_UNIX:
                if connection.laddr:
                    yield connection.laddr
            elif connection.status == psutil.CONN_LISTEN or connection.type == socket.SOCK_DGRAM:
                yield (connection.laddr.ip.removeprefix("::ffff:"), connection.laddr.port)


@pytest.mark.timeout(600)
def test_only_sources_and_two_guarded_ports_of_sparks_are_open(application):
    found = {place for process in application.run.everything() for place in listening(process)}
    addresses = {place for place in found if isinstance(place, tuple)}
    assert addresses == {application.run.address("words"), *(("127.0.0.1", port) for port in application.ports())}
    assert len(application.ports()) == 2
    # Everything else is in a folder that no other user can enter.
    (folder,) = {Path(place).parent for place in found - addresses}
    assert folder.stat().st_mode & 0o777 == 0o700


ATTACK = """
import os, socket, struct, sys
port, user = map(int, sys.argv[1:])
os.setgid(user)
os.setuid(user)
sent = 0
with socket.socket() as connection:
    connection.connect(("127.0.0.1", port))
    try:
        connection.sendall(struct.pack(">q", (1 << 31) - 100))
        while sent < 300 << 20:
            sent += connection.send(bytes(1 << 20))
    except ConnectionError:
        pass
print(sent)
"""


def attack(port, user):
    """Connect as a user, send the header of a large frame and then a lot, and return how many bytes were taken."""
    return int(run_python("-I", "-c", ATTACK, port, user).stdout)


@pytest.mark.timeout(600)
def test_other_users_reach_none_of_sparks_ports(application):
    # Only root can act as another user; otherwise `test_gateway.py` asks the guard about another user.
    user = NOBODY if os.getuid() == 0 else os.getuid()
    ports = application.ports()
    assert len(ports) == 2
    if user == NOBODY:
        for port in ports:
            # What fits into the buffers of the system before the connection is closed.
            assert attack(port, user) < 32 << 20
    application.answers()


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "process",
    [
        r"worker_daemon pyspark\.worker$",
        r"^\S+ -P -m wallaroo\.ingress$",
    ],
)
def test_the_application_continues_without_a_process_that_was_killed(application, process):
    application.answers()
    killed = application.processes(process)
    assert killed
    kill_all(killed)
    psutil.wait_procs(killed, PATIENCE)
    application.run.wait_until(lambda: answered(application), "an answer")


def answered(application):
    # A client of a process that was killed has to try again.
    with contextlib.suppress(OSError, AssertionError):
        application.answers()
        return True
    return False


@pytest.mark.timeout(600)
def test_nothing_outlives_machida_at_any_moment(application, tmp_path):
    with socket.create_connection(application.run.address("words"), timeout=PATIENCE) as sender:
        message = f"hold {tmp_path / 'held'}".encode()
        sender.sendall(struct.pack(">I", len(message)) + message)
        application.run.wait_until((tmp_path / "held").exists, "a worker that does not return")
        assert application.processes(r"^sleep 600$")
        for daemon in application.processes(r"worker_daemon pyspark\.worker$"):
            daemon.send_signal(signal.SIGSTOP)
        application.run.kill()
        application.run.nothing_left()
    wait_until_free(application.home)
