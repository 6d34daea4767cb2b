"""The application under test: started repeatedly on one directory, and its parts that faults can hit."""

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
from tests.system.cluster import Cluster
from tests.system.harness import PATIENCE, READY, Machida, busy_workers, ingress_of, jvm_of

from .ledger import ledger_of
from .outside import Connection, Outside
from .schedule import PIPELINE, Fault
from .tcp import TcpOutside

_APPS = Path(__file__).parent / "apps"
_OPTIONS = ("--time-between-checkpoints", "2s", "--max-log", "64MiB")
"""Commits come often, and so do the ends of segments, which are an eighth of the log's limit."""
SEGMENT_BYTES = 8 << 20


class Application:
    """The sequence application, and its directory in `folder`; `outside` is what it reads and writes."""

    def __init__(self, folder: Path, outside: Outside | None = None, cluster: Cluster | None = None) -> None:
        self.home = folder / "home"
        self.outside = outside or TcpOutside(self.home)
        self._cluster = cluster
        self.runs: list[Machida] = []
        self._freezing = threading.Lock()

    @property
    def run(self) -> Machida:
        """Return the run that was started last."""
        return self.runs[-1]

    @property
    def is_ready(self) -> bool:
        """Return whether the application runs and has reported that it is ready."""
        return bool(self.runs) and self.run.is_running and READY in self.run.output

    def start(self) -> None:
        """Start the application, with the same command each time; does not wait for it."""
        self.outside.take_note(self.home)
        master = ["--master", self._cluster.url] if self._cluster else ["--worker-count", "2"]
        places = [*self.outside.arguments, "--resilience-dir", self.home]
        self.runs.append(Machida("--application-module", "sequence", *places, *_OPTIONS, *master, folder=_APPS))

    def connect(self, lane: int = 0) -> Connection | None:
        """Return a connection to the source, None while its address is unknown."""
        return self.outside.connect(self.run, lane) if self.is_ready else None

    def targets(self, fault: Fault) -> list[psutil.Process]:
        """Return the processes of which a fault hits one; there may be none just now."""
        with contextlib.suppress(psutil.NoSuchProcess):
            match fault:
                case Fault.KILL_DRIVER | Fault.FREEZE_DRIVER:
                    return [psutil.Process(self.run.pid)] if self.run.is_running else []
                case Fault.KILL_JVM | Fault.FREEZE_JVM:
                    return jvm_of(self.run)
                case Fault.KILL_INGRESS | Fault.FREEZE_INGRESS:
                    return ingress_of(self.run)
                case Fault.KILL_EXECUTOR:
                    return self._cluster.executors() if self._cluster else []
                case _:
                    places = [self.run, *(self._cluster.executors() if self._cluster else [])]
                    return [worker for place in places for worker in busy_workers(place)]
        return []

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Keep the driver from running for the time of a `with` block."""
        with self._freezing:
            drivers = self.targets(Fault.FREEZE_DRIVER)
            for driver in drivers:
                driver.suspend()
                _wait_until_suspended(driver)
            try:
                yield
            finally:
                _resume(drivers)

    def thaw(self, processes: list[psutil.Process]) -> None:
        """Resume processes that were frozen."""
        with self._freezing:
            _resume(processes)

    def newest_segment(self) -> tuple[str, int]:
        """Return the newest segment of the source's log: its name, and how many bytes of messages it has."""
        found = sorted(self.home.glob(f"log/{PIPELINE}-*/*.data"))
        with contextlib.suppress(FileNotFoundError):
            if found:
                return found[-1].name, found[-1].stat().st_size
        return "", 0

    def saved_states(self) -> set[Path]:
        """Return the files of states, of epochs that are committed or not."""
        return set((self.home / "states").glob("*"))

    def last_recorded(self) -> int:
        """Return the last block that was recorded as sent."""
        return ledger_of(self.home, self.outside.sink)[0]

    def clean_up(self) -> None:
        """End everything."""
        for run in self.runs:
            run.clean_up()
        self.outside.clean_up()


def _wait_until_suspended(process: psutil.Process) -> None:
    """Wait until no thread of a process runs any more."""
    deadline = time.monotonic() + PATIENCE
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{process.pid}/task").iterdir():
            while (task / "stat").read_text().rpartition(") ")[2][0] not in "TZX":
                assert time.monotonic() < deadline, f"{process} does not stop"
                time.sleep(0.001)


def _resume(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGCONT)
