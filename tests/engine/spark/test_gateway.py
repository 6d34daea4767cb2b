"""The bridge to Spark's JVM: no port, no access without the token, and no failure on an interrupt."""

import contextlib
import os
import resource
import socket
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pyspark
import pytest

from wallaroo.engine.directory.run_folder import run_folder
from wallaroo.engine.spark.gateway import Bridge, Jvm, JvmExitedError
from wallaroo.engine.spark.java import java_home


def start(folder, settings, monkeypatch):
    monkeypatch.setenv("SPARK_HOME", str(Path(pyspark.__file__).parent))
    monkeypatch.setenv("JAVA_HOME", java_home(folder))
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
    chatter = os.open(folder / "chatter", os.O_WRONLY | os.O_CREAT)
    try:
        return Jvm(settings, folder, chatter, lock, guarded=True)
    finally:
        os.close(lock)
        os.close(chatter)


@pytest.fixture(scope="module")
def bridge():
    with pytest.MonkeyPatch.context() as monkeypatch, run_folder() as folder:
        jvm = start(folder, {}, monkeypatch)
        try:
            jvm.wait_until_up()
            yield Bridge(jvm)
        finally:
            jvm.kill()


def process_of(bridge):
    return psutil.Process(bridge.jvm.java.lang.ProcessHandle.current().pid())


@pytest.fixture(params=["IPv4", "IPv6"])
def connection(request):
    """Return both ends of a local connection, made as Python or as Java makes it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        if request.param == "IPv4":
            other = socket.create_connection(address)
        else:
            other = socket.socket(socket.AF_INET6)
            other.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            other.connect((f"::ffff:{address[0]}", address[1]))
        accepted, _ = server.accept()
        with other, accepted:
            yield other, accepted


def belongs_to(bridge, user, accepted):
    ends = [bridge.jvm.java.net.InetSocketAddress(*end) for end in (accepted.getpeername(), accepted.getsockname())]
    return bridge.entry_point.belongsTo(user, *ends)


def test_the_jvm_listens_on_no_port(bridge):
    assert process_of(bridge).net_connections("tcp") == []


def test_without_the_token_nothing_is_done(bridge):
    for said in (b"c\nt\nshutdown\ne\n", b"A\nwrong\n", b"\n"):
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(bridge.java_parameters.address)
            stranger.sendall(said)
            stranger.shutdown(socket.SHUT_WR)
            answer = stranger.makefile("rb").read()
        assert not answer.startswith(b"!y"), answer
    assert bridge.jvm.java.lang.Math.abs(-1) == 1


def test_a_connection_belongs_to_its_user_only(bridge, connection):
    _, accepted = connection
    assert bridge.entry_point.ownUser() == os.getuid()
    assert belongs_to(bridge, os.getuid(), accepted)
    assert not belongs_to(bridge, os.getuid() + 1, accepted)


def test_an_unknown_connection_belongs_to_no_user(bridge, connection):
    other, accepted = connection
    address = accepted.getpeername(), accepted.getsockname()
    ends = [bridge.jvm.java.net.InetSocketAddress(*end) for end in address]
    other.close()
    assert not bridge.entry_point.belongsTo(os.getuid(), *ends)


class Task:
    """Something for a thread of the JVM to run, which interrupts that thread, as Spark does to stop a query."""

    def __init__(self, bridge):
        self.interrupt = bridge.jvm.java.lang.Thread.currentThread
        self.calls = 0

    def call(self):
        self.calls += 1
        self.interrupt().interrupt()
        return "x" * 1_000_000

    class Java:
        """Which interface of Java's this is."""

        implements = ("java.util.concurrent.Callable",)


def test_the_bridge_survives_too_many_open_files(bridge):
    jvm = process_of(bridge)
    limits = resource.prlimit(jvm.pid, resource.RLIMIT_NOFILE)
    # What it needs for a connection comes too late, or for half of it.
    for more in range(4):
        resource.prlimit(jvm.pid, resource.RLIMIT_NOFILE, (jvm.num_fds() + more, limits[1]))
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(bridge.java_parameters.address)
            stranger.settimeout(0.5)
            with contextlib.suppress(OSError):
                stranger.recv(1)
        resource.prlimit(jvm.pid, resource.RLIMIT_NOFILE, limits)
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(bridge.java_parameters.address)
        stranger.sendall(b"A\nwrong\n")
        assert stranger.makefile("rb").read().startswith(b"!")


def test_a_thread_that_is_interrupted_gets_its_answer(bridge):
    executor = bridge.jvm.java.util.concurrent.Executors.newSingleThreadExecutor()
    task = Task(bridge)
    for _ in range(5):
        assert len(executor.submit(task).get()) == 1_000_000
    assert task.calls == 5
    executor.shutdown()


def test_a_jvm_that_does_not_start_is_noticed(monkeypatch):
    with TemporaryDirectory() as name:
        jvm = start(Path(name), {"spark.driver.memory": "1"}, monkeypatch)
        with pytest.raises(JvmExitedError):
            jvm.wait_until_up()
        jvm.kill()
        assert "heap" in Path(name, "chatter").read_text()


def test_it_ends_cleanly_when_asked_to(monkeypatch):
    with TemporaryDirectory() as name:
        jvm = start(Path(name), {}, monkeypatch)
        jvm.wait_until_up()
        assert jvm.stop()
        assert jvm.wait(0) == 0
