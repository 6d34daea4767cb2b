"""Processes that do not outlive the one that started them, whenever and however that one ends.

`start` runs a command below a *guard*, which is this module as a program: `python -I -S process_guard.py COMMAND ...`.
The command may start other processes. When the guard's standard input is closed, because the process at the other end
is gone, or when the command has ended, all of them are killed. The guard exits after the last of them, and keeps
inherited file descriptors open, so a lock among them is held as long as any process of the command runs. The command
does not inherit them: a process that cannot be killed, because it has changed its user, holds no lock.

On Linux all descendants are found: orphans are re-parented to the guard, which is a subreaper. Elsewhere, or without
`/proc`, only the command's process group is killed, and other descendants have to notice that by themselves.

The guard imports little, and runs without site packages, so it starts quickly.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import sys
import time
from collections import defaultdict
from contextlib import suppress

TYPE_CHECKING = False  # As in `typing`, which takes a while to import.
if TYPE_CHECKING:
    import subprocess
    from typing import IO, Any

_LINUX = sys.platform == "linux"
_PR_SET_PDEATHSIG = 1
_PARENT_GONE = signal.SIGUSR1
_PR_SET_CHILD_SUBREAPER = 36
_STDIN = 0
_STDERR = 2
_POLL_SECONDS = 0.005
_NOT_EXECUTED = 127
_END_SECONDS = 10.0
_ENDED = (b"Z", b"X")


def start(
    command: list[str],
    lock: int | None,
    *,
    env: dict[str, str],
    stdout: int | IO[Any],
    stderr: int | IO[Any] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a command below a guard, in its own session.

    `lock`, a file descriptor, stays open until all its processes have ended. The standard input is passed on to the
    command. The exit status is that of the command.
    """
    import subprocess  # noqa: PLC0415 - the guard itself starts faster without it

    return subprocess.Popen(  # noqa: S603 - our own programs, and settings of the user's
        [sys.executable, "-I", "-S", __file__, *command],
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=stderr,
        env=env,
        pass_fds=[] if lock is None else [lock],
        # Ctrl-C and Ctrl-Z at a terminal are meant for this process, which then decides what the command does.
        start_new_session=True,
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a command and all its child processes, and wait until they are gone."""
    import subprocess  # noqa: PLC0415 - as above

    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()
    # A guard that is suspended (SIGSTOP) would not notice.
    process.send_signal(signal.SIGCONT)
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def end_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel signal this process when the thread that started it ends; only on Linux.

    If the parent may end before this is called, another mechanism is needed as well, such as a pipe that is closed.
    """
    if _LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number.value, 0, 0, 0)


class _Guard:
    """Waits for the end of a command, or of the process that requested it."""

    def __init__(self, command: list[str]) -> None:
        self._woken, wake = os.pipe()
        for end in (self._woken, wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._killed = False
        self._status: int | None = None
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # A signal to the whole group, as systemd sends it, is meant for the requesting process, which decides what to
        # do. The command inherits the ignored SIGINT, because a terminal sends Ctrl-C to all processes.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(_PARENT_GONE, self._end)
        end_with_parent(_PARENT_GONE)
        if _LINUX:
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        _close_on_exec()
        self._child = _start(command)

    def _end(self, *_: object) -> None:
        self._killed = True

    def watch(self) -> int | None:
        """Return the status of the command when it has ended, or None if it has to be killed."""
        poll = select.poll()
        poll.register(_STDIN, 0)  # The data is for the command; hang-up is reported without being requested.
        poll.register(self._woken, select.POLLIN)
        while not self._killed and self._status is None:
            for file, _ in poll.poll():
                if file == _STDIN:
                    self._killed = True
                else:
                    os.read(self._woken, 4096)
            self._reap()
        return self._status

    def _reap(self) -> bool:
        """Reap children that have ended, and return whether there are any left."""
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self._child:
                    self._status = ended[1]
        except ChildProcessError:
            return False
        return True

    def end_all(self) -> None:
        """Kill all descendants, until none is left, or only those that this process is not permitted to kill."""
        if self._status is None:
            with suppress(OSError):
                os.killpg(self._child, signal.SIGKILL)
        while self._reap():
            found = _descendants(os.getpid())
            if self._status is None:
                found.append(self._child)  # It may not be visible in /proc.
            if not sum(map(_kill, found)):
                return
            time.sleep(_POLL_SECONDS)


def _kill(process: int) -> bool:
    """Kill a process, and return whether that is permitted."""
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return True


def _close_on_exec() -> None:
    """Do not pass inherited file descriptors on to the command."""
    with suppress(OSError):
        for entry in os.listdir("/dev/fd"):  # noqa: PTH208 - without pathlib it starts faster
            with suppress(OSError):
                if int(entry) > _STDERR:
                    os.set_inheritable(int(entry), False)


def _start(command: list[str]) -> int:
    guard = os.getpid()
    child = os.fork()
    if child:
        with suppress(OSError):  # The child may already have done this itself, and called exec.
            os.setpgid(child, child)
        return child
    try:
        os.setpgid(0, 0)
        end_with_parent()
        if os.getppid() == guard:
            for number in (signal.SIGTERM, signal.SIGCHLD, _PARENT_GONE):
                signal.signal(number, signal.SIG_DFL)
            os.execvp(command[0], command)  # noqa: S606 - no shell is wanted
    except OSError as error:
        os.write(sys.stderr.fileno(), f"{command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(_NOT_EXECUTED)


def _descendants(ancestor: int) -> list[int]:
    """Return the ids of all running descendants of a process; none where there is no `/proc`."""
    children = defaultdict(list)
    ended = {ancestor}
    try:
        entries = os.listdir("/proc")  # noqa: PTH208 - without pathlib it starts faster
    except OSError:
        return []
    for entry in entries:
        with suppress(OSError, ValueError, IndexError):
            process = int(entry)
            with open(f"/proc/{process}/stat", "rb") as file:  # noqa: PTH123
                # The name, in parentheses, may itself contain spaces and parentheses; state and parent follow it.
                state, parent, *_ = file.read().rpartition(b")")[2].split()
            children[int(parent)].append(process)
            # A zombie whose parent never waits for it stays in the table.
            if state in _ENDED:
                ended.add(process)
    found = [ancestor]
    for process in found:
        found += children[process]
    return [process for process in found if process not in ended]


def main(command: list[str]) -> None:
    """Run a command, and exit with its status or signal."""
    guard = _Guard(command)
    status = guard.watch()
    guard.end_all()
    if status is None:
        sys.exit(1)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(OSError):  # Signals that cannot be caught have no handler to reset.
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main(sys.argv[1:])
