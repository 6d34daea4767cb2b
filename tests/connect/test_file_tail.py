"""`wallaroo connect file-tail` and a real source for scripts: files that are rotated and truncated."""

import os
import signal
import sys

import pytest

from ..connectors.extension.ingress_of_extensions import messages, source  # noqa: TID252 - tests are not installed
from ..ingress.conftest import make_ingress  # noqa: F401, TID252
from ..processes import Process  # noqa: TID252

PROGRAM = "import wallaroo.connect.file_tail as script; script._QUIET_SECONDS = {}; script.command()"


@pytest.fixture
def tail(make_ingress, tmp_path):  # noqa: F811 - the fixture that is imported
    """Start the script for the file `log`; `tail.has` waits until the application has messages, and no others."""
    ingress = make_ingress(source=source())
    scripts = []

    def start(*options, quiet=0.2):
        address = "{}:{}".format(*ingress.addresses["numbers"])
        scripts.append(Process([sys.executable, "-c", PROGRAM.format(quiet), address, tmp_path / "log", *options]))
        return scripts[-1]

    def has(*expected):
        scripts[-1].wait_until(lambda: len(messages(ingress)) >= len(expected), "the messages")
        assert messages(ingress) == list(expected)

    start.has = has
    yield start
    for script in scripts:
        script.clean_up()


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log"


def append(path, text):
    with path.open("a") as file:
        file.write(text)


def test_a_file_that_does_not_exist(tail, log):
    assert tail("--once").exit_code() == 1
    script = tail()
    script.wait_until(lambda: f"Waiting for {log}" in script.output, "waiting")
    append(log, "one\n")
    tail.has(b"one")


def test_the_last_truncation_is_remembered(tail, log):
    append(log, "same\none\n")
    script = tail()
    tail.has(b"same", b"one")
    os.truncate(log, 0)
    append(log, "same\n")
    tail.has(b"same", b"one", b"same")
    append(log, "two\nthree\nfour\n")
    tail.has(b"same", b"one", b"same", b"two", b"three", b"four")
    script.stop()
    append(log, "five\n")
    assert tail("--once").exit_code() == 0
    tail.has(b"same", b"one", b"same", b"two", b"three", b"four", b"five")


def test_a_file_that_was_truncated_and_is_longer_again(tail, log):
    append(log, "same\none\n")
    script = tail()
    tail.has(b"same", b"one")
    # As one step for the script, which is stopped meanwhile.
    script.ask_to_stop(how=signal.SIGSTOP)
    os.truncate(log, 0)
    append(log, "same\nother\nlines\n")
    script.ask_to_stop(how=signal.SIGCONT)
    tail.has(b"same", b"one", b"same", b"other", b"lines")


def test_what_is_written_to_a_file_after_it_was_rotated(tail, log):
    with log.open("a") as writer:
        writer.write("one\n")
        writer.flush()
        script = tail(quiet=5)
        tail.has(b"one")
        log.rename(log.with_name("log.1"))
        append(log, "new\n")
        writer.write("two\n")
        writer.flush()
        tail.has(b"one", b"two")
        writer.write("thr")
    tail.has(b"one", b"two", b"thr", b"new")
    script.stop()
