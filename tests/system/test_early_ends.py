"""A run that ends while it is starting leaves nothing behind: no process, and no lock that keeps the next one out."""

import contextlib
import re
import signal

import psutil
import pytest

from .harness import unused_address, wait_until_free

PHASES = {
    "the process that accepts connections": r"wallaroo\.ingress$",
    "the script that starts Java": r"^\S*bash ",
    "the Java that puts the command together": r"org\.apache\.spark\.launcher\.Main",
    "Spark's JVM": r"^\S*java (?!.*launcher\.Main).*deploy\.SparkSubmit",
    "the first Python worker": r"worker_daemon pyspark\.worker$",
}


def command_lines(run):
    for process in run.everything():
        with contextlib.suppress(psutil.NoSuchProcess):
            yield " ".join(process.cmdline())


def has_reached(run, phase):
    """Return whether a run has come to a phase, or, where that is short, to a later one."""
    names = list(PHASES)
    patterns = [PHASES[name] for name in names[names.index(phase) :]]
    return any(re.search(pattern, line) for line in command_lines(run) for pattern in patterns)


@pytest.mark.timeout(900)
def test_whenever_it_is_stopped_or_killed_nothing_is_left(machida, tmp_path):
    command = ["--application-module", "word_count", "--in", "127.0.0.1:0", "--out", unused_address()]
    command += ["--resilience-dir", tmp_path / "home"]
    for phase in PHASES:
        for how in (signal.SIGTERM, signal.SIGKILL):
            run = machida(*command)
            run.wait_until(lambda: has_reached(run, phase), phase, pause=0.001)  # noqa: B023 - called at once
            run.ask_to_stop(how)
            assert run.exit_code() == (0 if how == signal.SIGTERM else -how), run.output
            run.nothing_left()
            wait_until_free(tmp_path / "home")
            assert "Traceback" not in run.output


@pytest.mark.timeout(600)
def test_a_killed_guard_is_a_killed_jvm(machida, tmp_path):
    places = ["--in", "127.0.0.1:0", "--out", unused_address(), "--resilience-dir", tmp_path / "home"]
    run = machida("--application-module", "word_count", *places)
    run.wait_until(lambda: has_reached(run, "the first Python worker"), "the first Python worker")
    (guard,) = [
        process
        for process in run.everything()
        if "process_guard.py" in " ".join(process.cmdline()) and "wallaroo.ingress" not in process.cmdline()
    ]
    guard.kill()
    run.wait_until_ready()
    run.stop()
    assert "Spark's process has ended unexpectedly: it was killed" in run.output
    assert "Traceback" not in run.output
    run.nothing_left()
    wait_until_free(tmp_path / "home")
