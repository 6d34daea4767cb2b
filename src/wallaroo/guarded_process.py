"""Commands that run below a guard: neither they nor what they start outlives this process (see `guard`)."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import suppress
from typing import IO, Any

from wallaroo import process_guard

_PATIENCE_SECONDS = 10.0


def start(
    command: list[str],
    lock: int | None,
    *,
    env: dict[str, str],
    stdout: int | IO[Any],
    stderr: int | IO[Any] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a command, in a session of its own; `lock`, a file descriptor, stays open until all of it is gone.

    What is written to the standard input is for the command. How the process ends is how the command did.
    """
    return subprocess.Popen(  # noqa: S603 - our own programs, and settings of the user's
        [sys.executable, "-I", "-S", process_guard.__file__, *command],
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=stderr,
        env=env,
        pass_fds=[] if lock is None else [lock],
        # What somebody at a terminal stops or interrupts is this process, which then says what to do.
        start_new_session=True,
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """End a command, and all that it has started, at once; wait until they are gone."""
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()
    # A guard that somebody has stopped would never know.
    process.send_signal(signal.SIGCONT)
    try:
        process.wait(_PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
