"""Commands that run below a guard: neither they nor their child processes outlive this one (see `process_guard`)."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import suppress
from typing import IO, Any

from wallaroo import process_guard

_TIMEOUT_SECONDS = 10.0


def start(
    command: list[str],
    lock: int | None,
    *,
    env: dict[str, str],
    stdout: int | IO[Any],
    stderr: int | IO[Any] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a command in its own session; `lock`, a file descriptor, stays open until all its processes have ended.

    The standard input is passed on to the command. The exit status is that of the command.
    """
    return subprocess.Popen(  # noqa: S603 - our own programs, and settings of the user's
        [sys.executable, "-I", "-S", process_guard.__file__, *command],
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=stderr,
        env=env,
        pass_fds=[] if lock is None else [lock],
        # Ctrl-C and Ctrl-Z at a terminal are meant for this process, which then tells the command what to do.
        start_new_session=True,
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a command and all its child processes, and wait until they are gone."""
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()
    # A guard that is suspended (SIGSTOP) would not notice.
    process.send_signal(signal.SIGCONT)
    try:
        process.wait(_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
