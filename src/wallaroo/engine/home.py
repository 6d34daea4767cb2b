"""The directory of an application: everything that outlives a run is in here.

log/              what the sources accepted and Spark has not yet committed, one folder a source
checkpoint/       Spark's checkpoint: offsets, commits and the state store
ledger            which batches each sink has been sent
layout.json       how the state is cut up
dead-letters.jsonl   messages that user code could not handle
logs/             Spark's own log
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

from wallaroo.engine.plan import Layout
from wallaroo.errors import WallarooError

_PATIENCE_SECONDS = 30.0


class Home:
    """Opens an application's directory for one run at a time."""

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.abspath(path))  # noqa: PTH100 - resolves no links, so users see what they gave
        self.checkpoint = self.path / "checkpoint"
        self.ledger = self.path / "ledger"
        self.dead_letters = self.path / "dead-letters.jsonl"
        self.spark_log = self.path / "logs" / "spark.log"
        self.lock: int | None = None
        """The file descriptor that keeps others out, as long as this process or one it was passed to has it open."""

    def open(self) -> None:
        """Create the directory where needed, and keep other runs out of it."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.spark_log.parent.mkdir(mode=0o700, exist_ok=True)
            _refuse_others(self.path)
            lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise WallarooError(
                f"The directory {self.path} cannot be used: {error.strerror}. Choose another one with --resilience-dir."
            ) from error
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not _locked(lock):
            holder = os.pread(lock, 32, 0).decode(errors="replace").strip()
            # The JVM of a run that was killed holds the lock too, and ends in a moment.
            if not _is_dead(holder) or time.monotonic() > deadline:
                os.close(lock)
                raise WallarooError(
                    f"Another run (process {holder or 'unknown'}) is using {self.path}. "
                    "Stop it first, or choose another directory with --resilience-dir."
                )
            time.sleep(0.1)
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        self.lock = lock

    def close(self) -> None:
        """Let the next run in."""
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None

    def log_of(self, source: str) -> Path:
        """Return the folder of a source's log."""
        words = re.sub(r"[^A-Za-z0-9]+", "-", source).strip("-").lower()[:40]
        return self.path / "log" / f"{words}-{zlib.crc32(source.encode()):08x}"

    def recorded_layout(self) -> tuple[str, Layout] | None:
        """Return the application's name and the layout that the state in here was made with, None if there is none."""
        try:
            recorded = json.loads((self.path / "layout.json").read_text())
        except FileNotFoundError:
            return None
        layout = Layout(
            levels=tuple(tuple(level) for level in recorded["levels"]),
            singles=frozenset(recorded["singles"]),
            partitions=recorded["partitions"],
            buckets=recorded["buckets"],
        )
        return recorded["application"], layout

    def record_layout(self, application: str, layout: Layout) -> None:
        """Write down how the state is cut up, before there is any."""
        recorded = {
            "application": application,
            "levels": layout.levels,
            "singles": sorted(layout.singles),
            "partitions": layout.partitions,
            "buckets": layout.buckets,
        }
        write_atomically(self.path / "layout.json", json.dumps(recorded, indent=2) + "\n")


def _refuse_others(folder: Path) -> None:
    """Refuse a folder of another user's: what is read from it is trusted, and it may lie where all can write."""
    if folder.stat().st_uid != os.getuid():
        raise WallarooError(
            f"The directory {folder} belongs to another user. Choose another one with --resilience-dir."
        )


def _locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_dead(process: str) -> bool:
    """Tell whether the process that wrote its number into the lock file is gone."""
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except (ValueError, OSError):
        return False
    return False


def default_home(application: str) -> Path:
    """Return where an application lives if no directory was given: in the temporary folder, by user and name."""
    words = re.sub(r"[^A-Za-z0-9]+", "-", application).strip("-").lower() or "application"
    folder = Path(tempfile.gettempdir()) / f"wallaroo-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    _refuse_others(folder)
    return folder / words


def check_layout(home: Home, application: str, wanted: Layout) -> Layout | None:
    """Return the layout recorded with the state, None if there is no state yet; refuse what does not fit it."""
    recorded = home.recorded_layout()
    if recorded is None:
        return None
    name, layout = recorded
    if name != application:
        raise WallarooError(
            f"{home.path} holds the state of another application, {name!r}. "
            "Choose another directory with --resilience-dir."
        )
    if (layout.levels, layout.singles) != (wanted.levels, wanted.singles):
        raise WallarooError(
            f"{home.path} holds the state of {name!r} with other states: "
            f"{_describe(layout)} then, {_describe(wanted)} now. "
            "Choose another directory with --resilience-dir to start afresh."
        )
    return layout


def _describe(layout: Layout) -> str:
    names = [
        f"{name!r}{' (one object)' if name in layout.singles else ' (partitioned)'}"
        for level in layout.levels
        for name in level
    ]
    return ", ".join(names) or "none"


def write_atomically(path: Path, text: str) -> None:
    """Replace a file so that a reader, or a crash, never sees half of it."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    Path(temporary).replace(path)


def read_json(path: Path) -> Any:
    """Return the content of a JSON file."""
    return json.loads(path.read_text())
