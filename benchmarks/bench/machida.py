"""An application of ours as its users run it: `machida` as a process, with all it starts."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import psutil

from bench.errors import NotRunningError
from bench.places import APPS, environment, machida_command

_READY = "Application has successfully initialized."
_COMMIT = "commit.json"
_LOOK_SECONDS = 0.005
_PATIENCE = 180.0


class Machida:
    """Runs an application for the time of a `with` block, which begins when it says that it is ready."""

    def __init__(
        self, app: str, home: Path, out: str | None, arguments: tuple[str, ...] = (), *, sources: int = 1
    ) -> None:
        """Start it; without `out`, where its messages come from and go to is in its arguments."""
        self.home = home
        self._said = home.with_name(f"{home.name}.out")
        command = [*machida_command(), "--application-module", app, "--resilience-dir", home]
        if out is not None:
            command += ["--in", ",".join(["127.0.0.1:0"] * sources), "--out", out]
        command += arguments
        environment_ = environment()
        self.started_ns = time.monotonic_ns()
        with self._said.open("w") as said:
            self._process = subprocess.Popen(
                [str(part) for part in command],
                cwd=APPS,
                env=environment_,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
            )
        self.ready_seconds = 0.0
        """How long it took from the command to the readiness line."""

    def __enter__(self) -> Self:
        deadline = time.monotonic() + _PATIENCE
        while _READY not in self.said:
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._end(signal.SIGKILL)
                raise NotRunningError(f"The application did not start:\n{self.said}")
            time.sleep(0.005)
        self.ready_seconds = (time.monotonic_ns() - self.started_ns) / 1e9
        return self

    def __exit__(self, *_: object) -> None:
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        family = self.processes() if self._process.poll() is None else []
        self._process.send_signal(how)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
        _, left = psutil.wait_procs(family, timeout=20)
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()

    @property
    def said(self) -> str:
        """Return all that it has put on the screen."""
        return self._said.read_text(errors="replace")

    @property
    def pid(self) -> int:
        """Return the number of the process that was started."""
        return self._process.pid

    def address(self, pipeline: str) -> tuple[str, int]:
        """Return the address that a pipeline's source listens on."""
        found = re.search(rf"listening +(\S+):(\d+) for '{re.escape(pipeline)}'", self.said)
        if found is None:
            raise NotRunningError(f"The application does not listen for {pipeline!r}:\n{self.said}")
        return found[1], int(found[2])

    def processes(self) -> list[psutil.Process]:
        """Return the application's processes: driver, JVM, ingress, workers."""
        with suppress(psutil.NoSuchProcess):
            driver = psutil.Process(self.pid)
            return [driver, *driver.children(recursive=True)]
        return []

    def memory(self) -> int:
        """Return the bytes that its processes take together, shared ones counted once."""
        total = 0
        for process in self.processes():
            with suppress(psutil.Error):
                info = process.memory_full_info()
                total += getattr(info, "pss", info.uss)
        return total

    def cpu_seconds(self) -> float:
        """Return the time that its processes have used so far."""
        total = 0.0
        for process in self.processes():
            with suppress(psutil.Error):
                times = process.cpu_times()
                total += times.user + times.system
        return total

    def jvm(self) -> psutil.Process:
        """Return the JVM."""
        return next(process for process in self.processes() if process.name() == "java")

    def workers(self) -> list[psutil.Process]:
        """Return the Python workers; the process that makes them, their parent, is none."""
        daemons = {process.pid for process in self.processes() if _is_of_workers(process)}
        return [process for process in self.processes() if _is_of_workers(process) and process.ppid() in daemons]

    def kill(self) -> None:
        """End all processes at once, as a power failure would."""
        family = self.processes()
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait(60)
        psutil.wait_procs(family, timeout=20)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop all that computes for the time of a `with` block; the ingress continues."""
        stopped = [process for process in self.processes() if process.name() == "java" or _is_of_workers(process)]
        for process in stopped:
            process.suspend()
        try:
            yield
        finally:
            for process in stopped:
                with suppress(psutil.NoSuchProcess):
                    process.resume()

    @contextmanager
    def commits(self) -> Iterator[list[int]]:
        """Note when commits are made, by the monotonic clock in ns, for the time of a `with` block."""
        found: list[int] = []
        enough = threading.Event()
        watcher = threading.Thread(target=self._watch_commits, args=(found, enough), daemon=True)
        watcher.start()
        try:
            yield found
        finally:
            enough.set()
            watcher.join()

    def _watch_commits(self, found: list[int], enough: threading.Event) -> None:
        path = self.home / _COMMIT
        before = _changed(path)
        while not enough.wait(_LOOK_SECONDS):
            if (now := _changed(path)) != before:
                before = now
                found.append(now - time.time_ns() + time.monotonic_ns())


def _is_of_workers(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return "wallaroo.engine.spark.worker_daemon" in process.cmdline()
    return False


def _changed(path: Path) -> int:
    with suppress(FileNotFoundError):
        return path.stat().st_mtime_ns
    return 0
