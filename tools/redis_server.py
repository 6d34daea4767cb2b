"""A Redis server, real and on loopback, for tests and the demo; only Python is needed.

server = Server(folder).start()
server.client.publish("text", "why hello")
server.kill()       # as kill -9 does; stop() is SIGTERM
server.start()      # the same address, the same data
server.clean_up()
"""

import fcntl
import os
import platform
import signal
import subprocess
import sys
import time
import zipfile
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import redis
from tools.free_port import free_port

from tools import ivy
from wallaroo import process_guard

PATIENCE = 240
"""How long anything may take on a machine that is busy with other things."""

_JAR = "com.github.codemonstur:embedded-redis:1.4.3"
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def binary() -> Path:
    """Return the program; the first call on a machine fetches 12 MB.

    Raises:
        ivy.OfflineError: It cannot be fetched, or there is none for this machine.
    """
    folder = ivy.jars("redis", _JAR)
    program = folder / "redis-server"
    # All workers of the test runner want it at the same time.
    with (folder / "unpacked.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            _unpack(next(folder.glob("embedded-redis-*.jar")), program)
    return program


def _unpack(jar: Path, program: Path) -> None:
    machine = _MACHINES.get(platform.machine(), platform.machine())
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if name.startswith("redis-server") and name.endswith(f"-{sys.platform}-{machine}"):
                program.with_suffix(".new").write_bytes(archive.read(name))
                program.with_suffix(".new").chmod(0o755)
                program.with_suffix(".new").rename(program)
                return
    raise ivy.OfflineError(f"{jar.name} has no redis-server for {sys.platform} on {machine}")


class Server:
    """A server with its data in a folder; what it has confirmed survives a kill."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.pid: int | None = None

    @property
    def url(self) -> str:
        """Return the address, as clients have it."""
        return f"redis://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """Return what the server has written so far."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def start(self) -> Self:
        """Start it, also again after `stop` or `kill`; returns when it answers."""
        assert self._process is None, "the server is running"
        command = [str(binary()), "--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self._folder)]
        command += ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
        with self._log.open("ab") as log:
            self._process = process_guard.start(command, None, env=dict(os.environ), stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE
        while (answered := self._answering_pid()) is None:
            assert self._process.poll() is None, f"the server has ended:\n{self.log}"
            assert time.monotonic() < deadline, f"the server does not answer:\n{self.log}"
            time.sleep(0.01)
        self.pid = answered
        return self

    def stop(self) -> None:
        """End it in good order (SIGTERM)."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a crash would (SIGKILL)."""
        self._end(signal.SIGKILL)

    def clean_up(self) -> None:
        """End it, if it runs; its data stay in the folder."""
        self.client.close()
        if self._process is not None:
            process_guard.end(self._process)
            self._process = self.pid = None

    @cached_property
    def client(self) -> Any:
        """A client, which also continues after a restart."""
        return redis.Redis.from_url(self.url)

    @property
    def _log(self) -> Path:
        return self._folder / "server.log"

    def _answering_pid(self) -> int | None:
        try:
            return int(self.client.info("server")["process_id"])
        except redis.ConnectionError:
            return None

    def _end(self, number: signal.Signals) -> None:
        assert self._process is not None
        assert self.pid is not None
        os.kill(self.pid, number)
        self._process.wait(PATIENCE)
        self.clean_up()
