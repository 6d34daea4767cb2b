"""Starts the ingress process and keeps it running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import wallaroo.errors
from wallaroo import process_guard
from wallaroo.backoff import Backoff
from wallaroo.errors import WallarooError
from wallaroo.ingress.config import IngressConfig, dump_config

if TYPE_CHECKING:
    from collections.abc import Callable

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 10.0

# A process that has run for this long did not die of the same cause as the previous one.
_STEADY_SECONDS = 10.0


class IngressProcess:
    """The process that accepts connections. It is restarted whenever it dies, until `stop` is called."""

    def __init__(
        self, config: IngressConfig, on_notice: Callable[[str], None] | None = None, lock: int | None = None
    ) -> None:
        """Prepare a process; `lock`, a file descriptor, stays open as long as it or one of its children runs."""
        self._config = config
        self._lock = lock
        self._on_notice = on_notice or _ignore
        self._child: subprocess.Popen[bytes] | None = None
        """The guard of the process: user code runs in it, too, and may start child processes."""
        self._pid: int | None = None
        self._stopping = threading.Event()
        self._starting = threading.Lock()
        self._supervisor: threading.Thread | None = None

    @property
    def pid(self) -> int | None:
        """Return the id of the process, or None if it is not running."""
        child = self._child
        return self._pid if child is not None and child.poll() is None else None

    @property
    def workers_port(self) -> int:
        """Return the port for workers on other machines, 0 if there are none."""
        return self._config.workers_port

    def start(self) -> dict[str, tuple[str, int]]:
        """Start the process and return the address of each source that listens.

        Raises:
            WallarooError: The process failed to start, with its own error message.
        """
        addresses = self._start_child()
        # After a restart the sources listen on the same ports.
        ports = {name: {"port": port} for name, (_, port) in addresses.items()}
        sources = [replace(each, place={**each.place, **ports.get(each.name, {})}) for each in self._config.sources]
        self._config = replace(self._config, sources=sources)
        self._supervisor = threading.Thread(target=self._supervise, name="wallaroo-ingress", daemon=True)
        self._supervisor.start()
        return addresses

    def stop(self, timeout: float = 10.0) -> None:
        """Let the process read what has already arrived and end; after `timeout` seconds it is killed."""
        self._stopping.set()
        with self._starting:
            child = self._child
        if child is None:
            return
        if self._pid is not None:
            # The pipe is closed if the process has just died.
            with suppress(OSError, ValueError, subprocess.TimeoutExpired):
                _say_stop(child)
                child.wait(timeout)
        process_guard.end(child)
        if self._supervisor is not None and self._supervisor is not threading.current_thread():
            self._supervisor.join()
        _close_pipes(child)

    def _start_child(self) -> dict[str, tuple[str, int]]:
        with self._starting:
            if self._stopping.is_set():
                raise WallarooError("The process that accepts connections is being stopped.")
            self._pid = None
            child = self._child = process_guard.start(
                # Without -P a file in the working directory could shadow a standard module.
                [sys.executable, "-P", "-m", "wallaroo.ingress"],
                self._lock,
                env={**os.environ, "PYTHONPATH": _python_path()},
                stdout=subprocess.PIPE,
            )
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(dump_config(self._config))
            child.stdin.flush()
            line = self._next_line(child)
        except BrokenPipeError:
            line = None
        except BaseException:
            process_guard.end(child)
            _close_pipes(child)
            raise
        if line is not None and "ready" in line:
            self._pid = line["pid"]
            # After a restart workers find the process on the same port.
            self._config = replace(self._config, workers_port=line["workers_port"])
            return {name: (host, port) for name, (host, port) in line["ready"].items()}
        child.wait()
        _close_pipes(child)
        if line is not None and "error" in line:
            refusal = WallarooError(line["error"])
            refusal.exit_code = child.returncode
            raise refusal
        raise WallarooError(f"The process that accepts connections could not start: it {_cause(child)}.")

    def _next_line(self, child: subprocess.Popen[bytes]) -> dict[str, Any] | None:
        """Return the next line that is not a notice, or None at the end; forward notices."""
        assert child.stdout is not None
        for text in child.stdout:
            try:
                line: dict[str, Any] = json.loads(text)
            except ValueError:
                return None  # An incomplete line: the process died while it was writing.
            if "notice" not in line:
                return line
            self._on_notice(line["notice"])
        return None

    def _supervise(self) -> None:
        backoff = Backoff(_FIRST_PAUSE, longest=_LONGEST_PAUSE)
        while (child := self._child) is not None:
            started = time.monotonic()
            while self._next_line(child) is not None:
                pass
            child.wait()
            if self._stopping.is_set():
                return
            _close_pipes(child)
            self._on_notice(
                f"The process that accepts connections {_cause(child)}; it is being restarted. "
                f"What it had accepted is kept, and senders can connect again in a moment."
            )
            if time.monotonic() - started > _STEADY_SECONDS:
                backoff.reset()
            self._restart(backoff)
            if self._stopping.is_set():
                return

    def _restart(self, backoff: Backoff) -> None:
        """Retry starting the process until it runs."""
        reported = False
        while not self._stopping.wait(backoff.next()):
            try:
                self._start_child()
            except (WallarooError, OSError) as error:
                if not reported and not self._stopping.is_set():
                    self._on_notice(f"The process that accepts connections cannot start yet: {error}")
                reported = True
            else:
                if reported:
                    self._on_notice("The process that accepts connections is running again.")
                break


def _say_stop(child: subprocess.Popen[bytes]) -> None:
    assert child.stdin is not None
    child.stdin.write(b"stop\n")
    child.stdin.flush()


def _python_path() -> str:
    """Return a module path on which the child finds this package."""
    package = str(Path(wallaroo.errors.__file__).parents[1])
    inherited = os.environ.get("PYTHONPATH")
    return f"{package}{os.pathsep}{inherited}" if inherited else package


def _cause(child: subprocess.Popen[bytes]) -> str:
    status = child.returncode
    if status is not None and status < 0:
        return f"was killed by {signal.Signals(-status).name}"
    return f"ended with status {status}"


def _close_pipes(child: subprocess.Popen[bytes]) -> None:
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except BrokenPipeError:
                # Closing flushes the rest of the configuration into a broken pipe.
                continue


def _ignore(_text: str) -> None:
    """Discard a notice."""
