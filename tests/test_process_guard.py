"""Processes end with the one that requested them, whatever they are doing and whatever their parents are."""

import fcntl
import os
import signal
import subprocess
import sys
import time
import uuid

import psutil
import pytest
from tests.processes import PATIENCE

from wallaroo import process_guard

MARK = "WALLAROO_TEST_MARK"

# Orphaned descendants in their own sessions, which ignore signals; one of them is stopped.
STUBBORN = """
import os, signal, time
for number in range(3):
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        if os.fork():
            os._exit(0)
        os.write(1, b"up\\n")
        while True:
            os.kill(os.getpid(), signal.SIGSTOP) if number == 1 else time.sleep(60)
"""

ASKS = """
import subprocess, sys, time
command = [sys.executable, "-I", "-S", sys.argv[1], sys.executable, "-c", sys.argv[2]]
asked = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=map(int, sys.argv[3:]))
time.sleep(600)
"""


def run_by_guard(*command, **options):
    return subprocess.Popen(
        [sys.executable, "-I", "-S", process_guard.__file__, *command], stdin=subprocess.PIPE, **options
    )


@pytest.fixture
def marked():
    """Yield an environment, and kill what a test that failed has left with it."""
    environment = {**os.environ, MARK: str(uuid.uuid4())}
    yield environment
    for process in alive(environment):
        process.kill()


def alive(environment):
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == environment[MARK]:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def wait_until_none(environment):
    deadline = time.monotonic() + PATIENCE
    while left := alive(environment):
        assert time.monotonic() < deadline, left
        time.sleep(0.01)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_everything_ends_with_the_requesting_process_and_a_lock_is_held_until_then(how, marked, tmp_path):
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    asks = subprocess.Popen(
        [sys.executable, "-c", ASKS, process_guard.__file__, STUBBORN + "time.sleep(600)", str(lock)],
        stdout=subprocess.PIPE,
        env=marked,
        pass_fds=[lock],
    )
    os.close(lock)
    for _ in range(3):
        assert asks.stdout.readline() == b"up\n"
    asks.send_signal(how)
    with (tmp_path / "lock").open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
    assert alive(marked) == []
    assert asks.wait(PATIENCE) == -how
    asks.stdout.close()


def test_what_a_command_has_started_ends_with_it(marked):
    once_up = STUBBORN + "for _ in range(3): os.wait()"
    asked = run_by_guard(sys.executable, "-c", once_up, env=marked, stdout=subprocess.DEVNULL)
    assert asked.wait(PATIENCE) == 0
    assert alive(marked) == []
    asked.stdin.close()


# A guard on a system that refuses to end some processes, or does not list them.
ODD_SYSTEM = """
import os, runpy, sys
kill, listdir = os.kill, os.listdir
def refusing(process, number):
    with open(f"/proc/{process}/cmdline") as file:
        if file.read().endswith("untouchable\\0"):
            raise PermissionError(1, "Operation not permitted")
    kill(process, number)
def hiding(path):
    if path == "/proc":
        raise FileNotFoundError(2, "No such file or directory")
    return listdir(path)
if sys.argv[1] == "refuses":
    os.kill = refusing
else:
    os.listdir = hiding
sys.argv[:] = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_a_process_that_may_not_be_killed_keeps_neither_the_others_nor_the_lock(marked, tmp_path):
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    sleeps = "import os, time; os.write(1, b'up\\n'); time.sleep(600)"
    script = f'"{sys.executable}" -c "{sleeps}" untouchable & "{sys.executable}" -c "{sleeps}" & wait'
    asked = subprocess.Popen(
        [sys.executable, "-c", ODD_SYSTEM, "refuses", process_guard.__file__, "setsid", "-w", "sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=marked,
        pass_fds=[lock],
    )
    os.close(lock)
    for _ in range(2):
        assert asked.stdout.readline() == b"up\n"
    asked.stdin.close()
    assert asked.wait(PATIENCE) == 1
    with (tmp_path / "lock").open() as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    (left,) = alive(marked)
    assert left.cmdline()[-1] == "untouchable"
    left.kill()
    assert asked.stderr.read() == b""
    asked.stdout.close()
    asked.stderr.close()


def test_without_proc_the_commands_group_is_ended(marked):
    asked = subprocess.Popen(
        [sys.executable, "-c", ODD_SYSTEM, "hides", process_guard.__file__, "sh", "-c", "sleep 600 & echo up; wait"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=marked,
    )
    assert asked.stdout.readline() == b"up\n"
    asked.stdin.close()
    assert asked.wait(PATIENCE) == 1
    wait_until_none(marked)
    asked.stdout.close()


@pytest.mark.timeout(PATIENCE)
def test_a_guard_that_was_stopped_ends_what_it_has_to(marked, monkeypatch):
    monkeypatch.setattr(process_guard, "_END_SECONDS", 10 * PATIENCE)
    asked = process_guard.start(["sh", "-c", "sleep 600 & echo up; wait"], None, env=marked, stdout=subprocess.PIPE)
    assert asked.stdout.readline() == b"up\n"
    asked.send_signal(signal.SIGSTOP)
    process_guard.end(asked)
    assert alive(marked) == []
    asked.stdout.close()


def test_a_command_ends_with_a_guard_that_is_killed(marked):
    asked = run_by_guard(sys.executable, "-c", "import time; print(flush=True); time.sleep(600)", env=marked, stdout=-1)
    asked.stdout.readline()
    asked.kill()
    wait_until_none(marked)
    asked.communicate()


@pytest.mark.parametrize(("script", "code"), [("exit 7", 7), ("kill -9 $$", -9), ("kill -6 $$", -6), ("exit 0", 0)])
def test_it_ends_with_the_status_of_the_command(script, code):
    asked = run_by_guard("sh", "-c", script)
    assert asked.wait(PATIENCE) == code
    asked.stdin.close()


def test_written_data_is_passed_to_the_command():
    asked = run_by_guard("sh", "-c", "read a; read b; echo $b $a", stdout=subprocess.PIPE)
    asked.stdin.write(b"one\ntwo\n")
    asked.stdin.flush()
    assert asked.stdout.read() == b"two one\n"
    asked.communicate()


def test_a_command_that_is_not_there_is_reported():
    asked = run_by_guard("/nowhere/at/all", stderr=subprocess.PIPE)
    assert asked.wait(PATIENCE) == 127
    assert asked.communicate()[1] == b"/nowhere/at/all: No such file or directory\n"


def test_a_signal_for_a_whole_group_is_left_to_the_requesting_process(marked):
    echo = "print('up', flush=True); print(input())"
    asked = run_by_guard(sys.executable, "-c", echo, env=marked, stdout=subprocess.PIPE)
    assert asked.stdout.readline() == b"up\n"
    asked.send_signal(signal.SIGTERM)
    asked.stdin.write(b"still here\n")
    asked.stdin.flush()
    assert asked.stdout.readline() == b"still here\n"
    assert asked.wait(PATIENCE) == 0
    asked.stdin.close()
    asked.stdout.close()
