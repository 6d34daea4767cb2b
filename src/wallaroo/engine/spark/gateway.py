"""The bridge to Spark's JVM: starts it, and talks with it through Unix sockets in a folder for this user only.

PySpark's own way would be ports of the loopback interface, open to every user of the machine: one asks for a token, but
takes in without end whatever comes instead of one, and the way back asks for nothing. The JVM's end is `Bridge.java`.
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

from wallaroo import guarded_process

_SOURCE = Path(__file__).with_name("Bridge.java")
_COMPILER = "org.codehaus.janino.SimpleCompiler"
_LOOK_SECONDS = 0.02
_ORDERLY_SECONDS = 30.0

# What PySpark imports for itself, see `launch_gateway`.
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
    """The JVM has ended before it could be talked to."""


class Jvm:
    """Spark's JVM, with everything it starts. It ends when this process does, whatever ends that."""

    def __init__(self, settings: Mapping[str, str], folder: Path, chatter: int, lock: int, *, guarded: bool) -> None:
        """Start the JVM, with its sockets in `folder`, and its output in the file `chatter`.

        `lock` is held as long as anything of it runs. `guarded`: other users are kept out of the ports Spark opens.
        """
        self.token = secrets.token_hex(32)
        self.folder = folder
        for socket_of_another in ("jvm", "python"):  # One that was killed has left them.
            (folder / socket_of_another).unlink(missing_ok=True)
        self._process = guarded_process.start(
            _command(settings, folder, guarded=guarded),
            lock,
            env={**os.environ, "SPARK_CONNECT_MODE": "0"},
            stdout=chatter,
            stderr=chatter,
        )

    def wait_until_up(self) -> None:
        """Wait until the JVM can be talked to.

        Raises:
            JvmExitedError: It has ended instead.
        """
        with suppress(BrokenPipeError):
            self._say(f"{self.token}\n")
        while not (self.folder / "jvm").exists():
            if self._process.poll() is not None:
                raise JvmExitedError
            time.sleep(_LOOK_SECONDS)

    def wait(self, timeout: float) -> int:
        """Wait for the end and return how the JVM has ended, as `subprocess` tells it."""
        return self._process.wait(timeout)

    def stop(self) -> bool:
        """Let the JVM end, and tell whether it did so in good order: where that takes too long, it is killed."""
        with suppress(OSError, subprocess.TimeoutExpired):
            self._say("stop\n")
            self._process.wait(_ORDERLY_SECONDS)
        self.kill()
        return self._process.returncode == 0

    def kill(self) -> None:
        """End the JVM, and all that it has started, at once."""
        guarded_process.end(self._process)

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode())
        self._process.stdin.flush()


def _command(settings: Mapping[str, str], folder: Path, *, guarded: bool) -> list[str]:
    command = [str(Path(os.environ["SPARK_HOME"], "bin", "spark-submit"))]
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    guard = "guarded" if guarded else "open"
    # Spark's scripts do not take the path of an installation for what it is, whatever its characters.
    source = shutil.copyfile(_SOURCE, folder / _SOURCE.name)
    return [*command, "--class", _COMPILER, "spark-internal", str(source), "wallaroo.Bridge", str(folder), guard]


class Bridge(ClientServer):  # type: ignore[misc] # py4j has no types
    """What PySpark calls a gateway: objects of the JVM for Python, and the other way round."""

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
    """A Unix socket with a number where py4j looks for a port: that is how it tells connections apart."""

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
