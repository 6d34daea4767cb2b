"""Processes that tests start: run to their end, or watched while they run. All tests use these.

Only tests that hand descriptors to a process, or read and write its streams themselves, start it on their own.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import psutil

import wallaroo

SOURCES = Path(wallaroo.__file__).parents[1]

MACHIDA = [sys.executable, "-c", "from wallaroo.cli.machida import main; main(prog_name='machida')"]
WALLAROO = [sys.executable, "-c", "from wallaroo.cli.wallaroo import main; main(prog_name='wallaroo')"]
"""The commands, straight from the sources."""

PATIENCE = 240
"""How long anything may take on a machine that is busy with other things."""

LEFT_SECONDS = 30
"""How long processes of a run may outlive it on such a machine; on an idle one it is hardly noticed."""

MARK = "WALLAROO_TEST_RUN"
"""The variable by whose value all processes of a run are known, also those whose parents are gone."""


def environment(*folders, **more):
    """Return the environment of a process that finds modules in `folders`, and this very Wallaroo."""
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    paths = [*map(str, folders), str(SOURCES), *filter(None, inherited)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **more}


def run_to_end(*command, code=0, **options):
    """Run a command to its end, and return it with its output as text; its exit code must be `code`, None for any."""
    if "input" not in options:
        options.setdefault("stdin", subprocess.DEVNULL)
    options = {"capture_output": True, "text": True, "timeout": PATIENCE, **options}
    done = subprocess.run([str(part) for part in command], check=False, **options)  # noqa: TID251
    assert code in {None, done.returncode}, f"ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done


def run_python(*arguments, **options):
    """Run Python to its end, as `run_to_end` does."""
    return run_to_end(sys.executable, *arguments, **options)


class Process:
    """A process whose output is read as it comes, both streams as one; `stdout` may be a file instead."""

    def __init__(self, command, env=None, *, stdout=subprocess.PIPE, **options):
        self._mark = str(uuid.uuid4())
        self._process = subprocess.Popen(
            [str(part) for part in command],
            env={**(env or os.environ), MARK: self._mark},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.STDOUT if stdout == subprocess.PIPE else subprocess.PIPE,
            text=True,
            errors="replace",
            **options,
        )
        self.pid = self._process.pid
        self._stream = self._process.stdout or self._process.stderr
        self._lines = []
        self._family = {}
        self._asked = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._stream:
            self._lines.append(line)

    @property
    def output(self):
        """Return what the process has written so far."""
        return "".join(self._lines)

    @property
    def is_running(self):
        """Return whether the process has not ended yet."""
        return self._process.poll() is None

    def wait_until(self, condition, what, pause=0.01):
        """Wait until `condition()` is true; fail at once if the process ends before that."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if self._process.poll() is not None:
                self._reader.join(5)
                assert condition(), f"ended with {self._process.returncode} before {what}:\n{self.output}"
                return
            assert time.monotonic() < deadline, f"{what} did not happen:\n{self.output}"
            time.sleep(pause)

    def exit_code(self):
        """Wait for the process to end and return its exit code."""
        code = self._process.wait(PATIENCE)
        # A child that outlived it could keep the stream open: `nothing_left` finds that out.
        self._reader.join(5)
        return code

    def ask_to_stop(self, how=signal.SIGTERM):
        """Ask the process to stop, without waiting for it."""
        self._asked = True
        self.note_family()
        self._process.send_signal(how)

    def stop(self):
        """Stop the process, if nobody has asked it to yet; check that it ends well, with all it had started."""
        if not self._asked:
            self.ask_to_stop()
        code = self.exit_code()
        assert code == 0, f"stopped with {code}:\n{self.output}"
        self.nothing_left()

    def kill(self):
        """Kill the process, without a chance to clean up."""
        # It must not do anything more while its descendants are collected.
        self._process.send_signal(signal.SIGSTOP)
        self.note_family()
        self._process.kill()
        self.exit_code()

    def nothing_left(self):
        """Check that the processes this one had started, and those that they had, end with it."""
        deadline = time.monotonic() + LEFT_SECONDS
        while alive := self._left():
            assert time.monotonic() < deadline, f"still running: {[_name_of(process) for process in alive]}"
            time.sleep(0.01)

    def _left(self):
        # One that is ending has no environment any more, by which it could be found, while its files are still open.
        noted = [process for process in self._family.values() if is_alive(process)]
        return noted or self.everything()

    def everything(self):
        """Return all processes that run because this one did, itself among them."""
        return [process for process in psutil.process_iter() if is_alive(process) and _mark_of(process) == self._mark]

    def note_family(self):
        """Remember the descendants of this process, to look for them when it has ended."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self._family.update({p.pid: p for p in psutil.Process(self.pid).children(recursive=True)})

    def clean_up(self):
        """End whatever still runs."""
        if self._process.poll() is None:
            self.kill()
        for process in [*self._family.values(), *self.everything()]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._stream.close()


def is_alive(process):
    """Return whether a process runs; one that has ended and is not reaped yet does not count."""
    try:
        # A zombie waits to be reaped; its other threads may take longer to end than its first one.
        return process.is_running() and (process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1)
    except psutil.NoSuchProcess:
        return False


def _name_of(process):
    try:
        return " ".join(process.cmdline()) or process.name()
    except psutil.NoSuchProcess:
        return f"process {process.pid}"


def _mark_of(process):
    try:
        return process.environ().get(MARK)
    except (psutil.Error, OSError):
        return None
