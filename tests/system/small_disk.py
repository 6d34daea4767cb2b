"""A disk that can be filled up and freed again while machida runs on it."""

import contextlib
import resource
from pathlib import Path

import psutil
from tests.processes import run_to_end

_MOUNT = 'mount -t tmpfs -o size=96m none "$0" && exec "$@"'


def make_small_disk(folder):
    """Return a small disk at `folder`, or, if the system allows no mount, limited processes."""
    folder.mkdir()
    try:
        mounted = run_to_end("unshare", "-rm", "sh", "-c", _MOUNT, folder, "true", code=None).returncode == 0
    except OSError:
        mounted = False
    return _Mounted(folder) if mounted else _Limited(folder)


class _Mounted:
    """A file system in memory, which only the process that mounts it and its children see."""

    def __init__(self, folder):
        self.folder = folder

    def command(self, command):
        """Return the command that runs another one on this disk."""
        return ["unshare", "-rm", "sh", "-c", _MOUNT, self.folder, *command]

    def fill(self, run):
        """Leave no room at all; again, where old files have been deleted since."""
        with self._ballast(run).open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))

    def free(self, run):
        """Make room again."""
        self._ballast(run).unlink()

    def _ballast(self, run):
        return Path(f"/proc/{run.pid}/root{self.folder}/ballast")


class _Limited:
    """The disk is what it is, but no file of the processes may grow: they meet it when they write, as a full disk."""

    def __init__(self, folder):
        self.folder = folder

    def command(self, command):
        return command

    def fill(self, run):
        self._limit(run, 0)

    def free(self, run):
        self._limit(run, resource.getrlimit(resource.RLIMIT_FSIZE)[0])

    def _limit(self, run, most):
        main = psutil.Process(run.pid)
        for process in [main, *main.children(recursive=True)]:
            with contextlib.suppress(ProcessLookupError):
                _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most, hard))
