"""Processes that do not outlive the one that started them, whenever and however that one ends.

As a program (`python -I -S process_guard.py COMMAND ...`) it runs a command whose processes may start others. When its
standard input ends, because the process at the other end is gone, or when the command has ended, all of them are
killed. It stays until the last one is gone, and keeps open the file descriptors that it was given, so a lock among them
is held as long as anything of the command runs. The command does not inherit them: a process that cannot be killed,
because it now belongs to another user, holds no lock.

On Linux the processes are found whatever they do: those whose parents have ended become children of this one.
Elsewhere, or without `/proc`, only the command's process group is ended, and the rest is left to notice it.

It imports nothing but the standard library, and is run without the paths of any other packages: it starts in a moment.
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

_LINUX = sys.platform == "linux"
_PR_SET_PDEATHSIG = 1
_PARENT_GONE = signal.SIGUSR1
_PR_SET_CHILD_SUBREAPER = 36
_STDIN = 0
_STDERR = 2
_LOOK_SECONDS = 0.005
_NOT_EXECUTED = 127
_ENDED = (b"Z", b"X")


def end_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Have this process sent a signal as soon as the thread that started it is gone; only Linux can do that.

    Who is started by a process that may be gone before this is called needs something else besides: a pipe that ends.
    """
    if _LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number.value, 0, 0, 0)


class _Guard:
    """Waits for the end of a command, or for that of whoever asked for it."""

    def __init__(self, command: list[str]) -> None:
        self._woken, wake = os.pipe()
        for end in (self._woken, wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._unwanted = False
        self._status: int | None = None
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # Who sends a signal to a whole group, as systemd does, means whoever asked for the command: that one says what
        # is to be done. The command inherits it for a Ctrl-C, which a terminal sends to all.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(_PARENT_GONE, self._end)
        end_with_parent(_PARENT_GONE)
        if _LINUX:
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        _keep_for_oneself()
        self._child = _start(command)

    def _end(self, *_: object) -> None:
        self._unwanted = True

    def watch(self) -> int | None:
        """Return how the command has ended, or None if it is to be ended."""
        poll = select.poll()
        poll.register(_STDIN, 0)  # What is written there is for the command; only the end is told without asking.
        poll.register(self._woken, select.POLLIN)
        while not self._unwanted and self._status is None:
            for file, _ in poll.poll():
                if file == _STDIN:
                    self._unwanted = True
                else:
                    os.read(self._woken, 4096)
            self._reap()
        return self._status

    def _reap(self) -> bool:
        """Take note of children that have ended, and tell whether there are any left."""
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self._child:
                    self._status = ended[1]
        except ChildProcessError:
            return False
        return True

    def end_all(self) -> None:
        """Kill whatever runs, until nothing does, or only what this process may not kill."""
        if self._status is None:
            with suppress(OSError):
                os.killpg(self._child, signal.SIGKILL)
        while self._reap():
            found = _descendants(os.getpid())
            if self._status is None:
                found.append(self._child)  # Also where there is nothing to be read of it.
            if not sum(map(_kill, found)):
                return
            time.sleep(_LOOK_SECONDS)


def _kill(process: int) -> bool:
    """Kill a process, and tell whether that is allowed."""
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return True


def _keep_for_oneself() -> None:
    """Keep the files that this process was given from the command."""
    with suppress(OSError):
        for entry in os.listdir("/dev/fd"):  # noqa: PTH208 - without pathlib it starts faster
            with suppress(OSError):
                if int(entry) > _STDERR:
                    os.set_inheritable(int(entry), False)


def _start(command: list[str]) -> int:
    guard = os.getpid()
    child = os.fork()
    if child:
        with suppress(OSError):  # It may have done so itself already, and more.
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
    """Return the ids of all processes below one, but for those that have ended; none where the system does not tell."""
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
                # The name, in parentheses, may have spaces and parentheses in it; behind it are state and parent.
                state, parent, *_ = file.read().rpartition(b")")[2].split()
            children[int(parent)].append(process)
            # Somebody else may never ask how it has ended.
            if state in _ENDED:
                ended.add(process)
    found = [ancestor]
    for process in found:
        found += children[process]
    return [process for process in found if process not in ended]


def main(command: list[str]) -> None:
    """Run a command, and end the way it did."""
    guard = _Guard(command)
    status = guard.watch()
    guard.end_all()
    if status is None:
        sys.exit(1)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(OSError):  # Of those that cannot be caught nothing has to be undone.
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main(sys.argv[1:])
