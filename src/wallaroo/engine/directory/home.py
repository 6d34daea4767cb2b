"""The directory of an application: everything that outlives a run.

wallaroo-directory   marks the directory as an application's
log/              messages that the sources have accepted and that are not committed, one folder per source
sequence/         the order of the accepted messages, as blocks
commit.json       up to which block everything is computed, and where the states are
states/           the states
ledger            which blocks have been sent to each sink
layout.json       how the state is partitioned
dead-letters.jsonl   messages that user code could not handle
replays.jsonl     dead letters to be replayed, and which have been
logs/             Spark's own log, and the metrics of the last run
before-.../       the previous contents, moved here by a start with --reset
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from wallaroo.engine.directory.archive import LOCK, archive_contents, finish_archiving
from wallaroo.engine.directory.quote_free_paths import refuse_unusable, safe_path
from wallaroo.engine.directory.run_folder import found_users_folder
from wallaroo.engine.directory.trust import claim, is_applications, refuse_untrusted
from wallaroo.engine.plan import Layout
from wallaroo.errors import DirectoryError
from wallaroo.files import write_atomically

_TIMEOUT_SECONDS = 20.0

COMMIT = "commit.json"
"""The file with the committed position, and where the states are."""

_FORMAT = 4
"""The version of the file formats, increased whenever an older version can no longer read the files."""
_READABLE = {3, _FORMAT}
"""Those that this version can read; what it writes has the newest."""


class Home:
    """Opens an application's directory for one run at a time."""

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.abspath(path))  # noqa: PTH100 - resolves no links, so users see what they gave
        self.for_spark = self.path
        """The same directory under the path that Spark uses."""
        self.logs = self.path / "log"
        self.sequence = self.path / "sequence"
        self.states = self.path / "states"
        self.ledger = self.path / "ledger"
        self.dead_letters = self.path / "dead-letters.jsonl"
        self.replays = self.path / "replays.jsonl"
        self.spark_log = self.path / "logs" / "spark.log"
        self.spark_output = self.spark_log.with_name("spark.out")
        """The standard output and error of Spark's processes."""
        self.counts = self.spark_log.with_name("counts.json")
        """The metrics of the last run."""
        self.lock: int | None = None
        """The descriptor of the lock, which is held while this process, or one that inherited it, has it open."""

    def open(self) -> None:
        """Create the directory if necessary, and lock it against other runs."""
        refuse_unusable(self.path)
        with _usable(self.path):
            claim(self.path)
            lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while not _locked(lock):
            holder = os.pread(lock, 32, 0).decode(errors="replace").strip()
            # The child processes of a killed run hold the lock, too, and are about to end.
            dead = _is_dead(holder)
            if not dead or time.monotonic() > deadline:
                os.close(lock)
                number = holder.partition(" ")[0] or "unknown"
                raise DirectoryError(_left_behind(self.path, number) if dead else _in_use(self.path, number))
            time.sleep(0.05)
        os.ftruncate(lock, 0)
        process = os.getpid()
        os.pwrite(lock, f"{process} {_beginning(process)}".strip().encode() + b"\n", 0)
        self.lock = lock
        with _usable(self.path):
            finish_archiving(self.path)
            self.spark_log.parent.mkdir(mode=0o700, exist_ok=True)

    def link_from(self, folder: Path) -> None:
        """Give Spark a path to the directory without special characters, if necessary through a link in `folder`."""
        self.for_spark = safe_path(self.path, folder / "home")

    def look(self) -> None:
        """Check that the directory exists and can be trusted, before it is only read; changes nothing."""
        if not self.path.is_dir():
            raise DirectoryError(f"There is no directory {self.path}.")
        refuse_untrusted(self.path)

    def in_use(self) -> bool:
        """Return whether a run is using the directory."""
        try:
            lock = os.open(self.path / LOCK, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(lock)
        return False

    def archive(self) -> Path | None:
        """Start fresh: move the contents into a folder, and return it, or None if there were none."""
        with _usable(self.path):
            folder = archive_contents(self.path)
            self.spark_log.parent.mkdir(mode=0o700, exist_ok=True)
        return folder

    def close(self) -> None:
        """Release the lock."""
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None

    def log_of(self, source: str) -> Path:
        """Return the folder of a source's log."""
        words = re.sub(r"[^A-Za-z0-9]+", "-", source).strip("-").lower()[:40]
        return self.logs / f"{words}-{zlib.crc32(source.encode()):08x}"

    def recorded_layout(self) -> tuple[str, Layout] | None:
        """Return the application's name and the layout of its state, None if there is none."""
        path = self.path / "layout.json"
        try:
            recorded = json.loads(path.read_text())
            if recorded.get("format") not in _READABLE:
                raise DirectoryError(
                    f"{self.path} was written by another version of Wallaroo, in a format that this one cannot read. "
                    "Run that version until it has processed everything that it has accepted; or start fresh with "
                    "--reset, which keeps what is there in a folder of its own."
                )
            return recorded["application"], Layout.from_json(recorded)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DirectoryError(
                f"{path} is damaged, and the state cannot be read without it. Restore it from a copy, or start "
                "fresh with --reset, which keeps what is there in a folder of its own."
            ) from error

    def record_layout(self, application: str, layout: Layout) -> None:
        """Record how the state is partitioned, before there is any."""
        recorded = {"format": _FORMAT, "application": application, **layout.as_json()}
        write_atomically(self.path / "layout.json", json.dumps(recorded, indent=2) + "\n")


@contextmanager
def _usable(folder: Path) -> Iterator[None]:
    """Turn errors of the file system into an error that names the directory."""
    try:
        yield
    except OSError as error:
        raise DirectoryError(
            f"The directory {folder} cannot be used: {error.strerror}. Choose another one with --resilience-dir."
        ) from error


def _in_use(folder: Path, number: str) -> str:
    return (
        f"Another run (process {number}) is using {folder}. "
        "Stop it first, or choose another directory with --resilience-dir."
    )


def _left_behind(folder: Path, number: str) -> str:
    """Return the message for a lock that is still held after its run has ended, with the processes that hold it."""
    holders = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # Processes of other users, and those that have just ended.
            if any(file.samefile(folder / LOCK) for file in (process / "fd").iterdir() if file.exists()):
                holders.append(process.name)
    if not holders:
        return (
            f"Something is using {folder}, and cannot be seen from here: another run (process {number} of "
            "another container or machine, perhaps), or processes that one has left behind. End them first, or "
            "choose another directory with --resilience-dir."
        )
    return (
        f"A run that has ended (process {number}) has left something running that still uses {folder}: "
        f"process {' and '.join(holders)}. End that first, or choose another directory with --resilience-dir."
    )


def _locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_dead(holder: str) -> bool:
    """Return whether the process that is recorded in the lock file has ended."""
    number, _, began = holder.partition(" ")
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except (ValueError, OSError):
        return False
    # Process ids are reused.
    return bool(began) and began != _beginning(int(number))


def _beginning(process: int) -> str:
    """Return the start time of a process in clock ticks; empty if that is not known, or it has ended."""
    try:
        state, *rest = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state == "Z" else rest[18]


def default_home(application: str, *, looking: bool = False) -> Path:
    """Return the default directory of an application: in the user's folder for state, by its name.

    Earlier versions used the temporary folder. State that is there is used until it is moved.

    Args:
        application: The name of the application, followed by that of the run if it has one.
        looking: Create no folder: the caller only reads.

    Raises:
        DirectoryError: There is no home folder, or the folder for state cannot be created.
    """
    words = re.sub(r"[^A-Za-z0-9]+", "-", application).strip("-").lower() or "application"
    folder = _users_states()
    earlier = _earlier_home(words)
    if earlier is not None and not (folder and os.path.lexists(folder / words)):
        return earlier
    if folder is None:
        raise DirectoryError(
            "This user has no home folder in which state could be kept. Choose a directory with --resilience-dir."
        )
    if not looking:
        _make_private(folder)
    return folder / words


def remark_on(home: Path) -> str:
    """Return a remark on a directory that is in the default place of earlier versions; empty for any other."""
    if home != _earlier_home(home.name):
        return ""
    text = "in the temporary folder, as in earlier versions, which the system may empty"
    if folder := _users_states():
        places = [shlex.quote(str(place)) for place in (folder, home, folder / home.name)]
        text += ". To keep the state, stop, and run `mkdir -p {} && mv {} {}`".format(*places)
    return f" ({text})"


def _earlier_home(words: str) -> Path | None:
    """Return the default directory of earlier versions, or None if the application has none."""
    try:
        home = found_users_folder(tempfile.gettempdir()) / words
        is_own = home.lstat().st_uid == os.getuid() and not home.is_symlink()
    except OSError:
        return None
    return home if is_own and is_applications(home) else None


def _users_states() -> Path | None:
    """Return the user's folder for the state of applications, or None for a user without a home folder."""
    chosen = Path(os.environ.get("XDG_STATE_HOME", ""))
    # By convention, a path that is not absolute is ignored: it would depend on the current folder.
    if chosen.is_absolute():
        return chosen / "wallaroo"
    try:
        home = Path.home()
    except RuntimeError:
        return None
    # An empty HOME stands for the root folder, and a relative one depends on the current folder.
    if not home.is_absolute() or home == Path("/"):
        return None
    usual = ("Library", "Application Support") if sys.platform == "darwin" else (".local", "state")
    return home.joinpath(*usual, "wallaroo")


def _make_private(folder: Path) -> None:
    """Create a folder, and its missing parents, for their owner only."""
    with _usable(folder):
        for missing in reversed([each for each in (folder, *folder.parents) if not each.exists()]):
            missing.mkdir(mode=0o700, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
