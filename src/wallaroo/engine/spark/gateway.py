"""The bridge to Spark's JVM: starts it, and talks to it through Unix sockets in a private folder.

PySpark itself would use ports of the loopback interface, which are open to every user of the machine: one requires a
token, but reads input of any length in its place, and the callback port requires none. The JVM's end is `Bridge.java`.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.clientserver import (
    ClientServer,
    ClientServerConnection,
    JavaClient,
    JavaParameters,
    PythonParameters,
    PythonServer,
)
from py4j.java_gateway import java_import

from wallaroo import process_guard

_SOURCE = Path(__file__).with_name("Bridge.java")
_COMPILER = "org.codehaus.janino.SimpleCompiler"
_POLL_SECONDS = 0.02
_STOP_TIMEOUT_SECONDS = 30.0

# The same imports as in PySpark's `launch_gateway`.
_IMPORTS = (
    "org.apache.spark.SparkConf",
    "org.apache.spark.api.java.*",
    "org.apache.spark.api.python.*",
    "org.apache.spark.ml.python.*",
    "org.apache.spark.mllib.api.python.*",
    "org.apache.spark.resource.*",
    "org.apache.spark.sql.Encoders",
    "org.apache.spark.sql.OnSuccessCall",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.*",
    "org.apache.spark.sql.api.python.*",
    "org.apache.spark.sql.hive.*",
    "scala.Tuple2",
)


class JvmExitedError(Exception):
    """The JVM has ended before it accepted connections."""


class Jvm:
    """Spark's JVM, with all its child processes. It ends when this process does, for whatever reason."""

    def __init__(self, settings: Mapping[str, str], folder: Path, output: int, lock: int, *, guarded: bool) -> None:
        """Start the JVM, with its sockets in `folder`, and its output in the file `output`.

        `lock` is held as long as one of its processes runs. `guarded`: Spark's ports reject other users.
        """
        self.token = secrets.token_hex(32)
        self.folder = folder
        for socket_of_another in ("jvm", "python"):  # Left behind by a JVM that was killed.
            (folder / socket_of_another).unlink(missing_ok=True)
        self._process = process_guard.start(
            _command(settings, folder, guarded=guarded),
            lock,
            env={**os.environ, "SPARK_CONNECT_MODE": "0"},
            stdout=output,
            stderr=output,
        )

    def wait_until_up(self) -> None:
        """Wait until the JVM accepts connections.

        Raises:
            JvmExitedError: It has ended instead.
        """
        with suppress(BrokenPipeError):
            self._say(f"{self.token}\n")
        while not (self.folder / "jvm").exists():
            if self._process.poll() is not None:
                raise JvmExitedError
            time.sleep(_POLL_SECONDS)

    def wait(self, timeout: float) -> int:
        """Wait for the end of the JVM and return its exit status, as `subprocess` does."""
        return self._process.wait(timeout)

    def stop(self) -> bool:
        """Stop the JVM, and return whether it ended cleanly: if that takes too long, it is killed."""
        with suppress(OSError, subprocess.TimeoutExpired):
            self._say("stop\n")
            self._process.wait(_STOP_TIMEOUT_SECONDS)
        self.kill()
        return self._process.returncode == 0

    def kill(self) -> None:
        """Kill the JVM and all its child processes."""
        process_guard.end(self._process)

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode())
        self._process.stdin.flush()


def _command(settings: Mapping[str, str], folder: Path, *, guarded: bool) -> list[str]:
    command = [str(Path(os.environ["SPARK_HOME"], "bin", "spark-submit"))]
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    guard = "guarded" if guarded else "open"
    # Spark's scripts do not quote paths, and the path of the installation may have special characters.
    source = shutil.copyfile(_SOURCE, folder / _SOURCE.name)
    return [*command, "--class", _COMPILER, "spark-internal", str(source), "wallaroo.Bridge", str(folder), guard]


class Bridge(ClientServer):  # type: ignore[misc] # py4j has no types
    """PySpark's gateway: makes objects of the JVM available to Python, and vice versa."""

    def __init__(self, jvm: Jvm) -> None:
        self.proc = jvm
        super().__init__(
            JavaParameters(address=str(jvm.folder / "jvm"), port=0, auth_token=jvm.token, auto_convert=True),
            PythonParameters(
                address=str(jvm.folder / "python"), port=0, daemonize=True, daemonize_connections=True, eager_load=True
            ),
        )
        for name in _IMPORTS:
            java_import(self.jvm, name)

    def _create_gateway_client(self) -> JavaClient:
        return _Client(self.java_parameters, self.python_parameters, finalizer_deque=self._create_finalizer_worker())

    def _create_callback_server(self, _parameters: Any) -> PythonServer:
        return _Server(self._gateway_client, self.java_parameters, self.python_parameters, self.gateway_property)


class _Client(JavaClient):  # type: ignore[misc]
    def _create_new_connection(self) -> ClientServerConnection:
        connection = _Connection(self.java_parameters, self.python_parameters, self.gateway_property, self)
        connection.connect_to_java_server()
        self.set_thread_connection(connection)
        return connection


class _Socket(socket.socket):
    """A Unix socket with a number in place of a port, by which py4j distinguishes connections."""

    def getsockname(self) -> tuple[str, int]:
        return "", self.fileno()

    def getpeername(self) -> tuple[str, int]:
        return self.getsockname()


class _Connection(ClientServerConnection):  # type: ignore[misc]
    def connect_to_java_server(self) -> None:
        try:
            self.socket = _Socket(socket.AF_UNIX)
            self.socket.connect(self.java_address)
            self.stream = self.socket.makefile("rb")
            self.is_connected = True
            self.initiated_from_client = True
            self._authenticate_connection()
        except Exception:
            self.close()
            self.is_connected = False
            raise


class _Server(PythonServer):  # type: ignore[misc]
    def start(self) -> None:
        self.server_socket = socket.socket(socket.AF_UNIX)
        self.server_socket.bind(self.address)
        self.server_socket.listen()
        self.thread = threading.Thread(target=self.run, name="wallaroo-bridge", daemon=True)
        self.thread.start()
