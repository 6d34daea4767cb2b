"""A whole run of an application: from the built topology to the last batch."""

from __future__ import annotations

import contextlib
import secrets
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path

from wallaroo.api.configs import TCPSourceConfig
from wallaroo.api.generators import GenSourceConfig, PickleDecoder
from wallaroo.connectors.base import Notice, never_failing
from wallaroo.engine.comeback import Comeback
from wallaroo.engine.delivery.on_error import OnError
from wallaroo.engine.directory.home import Home, default_home
from wallaroo.engine.directory.plain_names import refuse_if_not_plain
from wallaroo.engine.directory.run_folder import temporary_folder
from wallaroo.engine.spark.failures import told_plainly
from wallaroo.engine.spark.message_room import fitting_limits
from wallaroo.engine.spark.preflight import check_before_start
from wallaroo.engine.spark.session import SparkOptions
from wallaroo.ingress.config import SourceEndpoint
from wallaroo.ingress.limits import Limits
from wallaroo.program import Program
from wallaroo.topology.model import REPLAYS, Application, Pipeline
from wallaroo.trust import stranger

READY = "Application has successfully initialized."
_MOST_PARTITIONS_BY_DEFAULT = 8
_BUCKETS_PER_PARTITION = 4
_WARM_UP_BATCHES = 2
_NUDGE_AGAIN_SECONDS = 30.0


@dataclass(frozen=True)
class RunOptions:
    """How to run an application."""

    home: Path | None = None
    reset: bool = False
    """Whether to start fresh; what is in the directory is then set aside."""
    skip_damaged: bool = False
    """Whether to go on without messages in the logs that the disk has damaged."""
    workers: int | None = None
    """The degree of parallelism; by default what the machine or the cluster offers."""
    buckets: int | None = None
    batch_bytes: int = 64 << 20
    effectively_once: bool = False
    """Whether batches are framed with their ids, for receivers that confirm them and drop repeats."""
    on_error: OnError = field(default_factory=OnError)
    epoch_seconds: float | None = None
    """The longest time between two commits."""
    limits: Limits = field(default_factory=Limits)
    spark: SparkOptions = field(default_factory=SparkOptions)


class Stop:
    """How a run is asked to stop."""

    def __init__(self) -> None:
        self.ready = False
        """Set once the run is up and stops in good order; before that it can just be interrupted."""
        self.requested = threading.Event()
        self.at_once = threading.Event()


class Run:
    """One run of an application."""

    def __init__(
        self,
        application: Application,
        program: Program,
        options: RunOptions,
        say: Notice,
        warn: Notice,
    ) -> None:
        self.application = application
        self.options = options
        self.home = Home(options.home or default_home(application.name))
        self._program = program
        self._say = never_failing(say)
        self._warn = never_failing(warn)
        self._stopping = threading.Event()
        self._cleanup = contextlib.ExitStack()
        self._token = secrets.token_hex(16)
        self._limits = options.limits

    def run(self, stop: Stop) -> None:
        """Start, say so, and go on until asked to stop; raises a WallarooError if the application cannot go on."""
        with self._cleanup:
            check_before_start(self.application.pipelines, self.options.spark)
            if not self.options.spark.local:
                refuse_if_not_plain(self.home.path)
            self._limits = fitting_limits(self.options.limits, self.options.spark)
            self.home.open()
            self._cleanup.callback(self.home.close)
            self._warn_of_strangers(self.home.path)
            self._comeback = Comeback(self.home, self._folders_written(), stop.requested, self._warn)
            with told_plainly(self.home):
                self._start()
                stop.ready = True
                self._say(READY)
                while not stop.requested.wait(0.25) and self._keeps_going():
                    pass
                if stop.requested.is_set():
                    self._warn("Stopping after the batch under way; at a second signal, at once.")
                    self._finish_batch(stop)
                self._raise_failure()
        self._say(
            f"Stopped: {self._egress.messages_out:,} messages sent, {self._egress.errors:,} dead letters in this run."
        )

    def _warn_of_strangers(self, folder: Path) -> None:
        # Nothing to refuse: in a container, volumes are often open to all, and nobody else is there.
        if why := stranger(folder):
            self._warn(f"Careful: {why}, and who can write there can put something else in the place of {folder}.")

    def _folder_on_one_machine(self, name: str) -> str | None:
        """Make a folder over which workers and driver talk, where all of them are on this machine."""
        if not self.options.spark.local:
            return None
        folder = self._folder / name
        folder.mkdir()
        return str(folder)

    def _endpoint(self, pipeline: Pipeline) -> SourceEndpoint:
        source = pipeline.source
        log = str(self.home.log_of(pipeline.name))
        if isinstance(source, GenSourceConfig):
            return SourceEndpoint(pipeline.name, "", 0, source.decoder, log, source.generator)
        assert isinstance(source, TCPSourceConfig)
        return SourceEndpoint(pipeline.name, *source.address, source.decoder, log)

    def _replays(self) -> SourceEndpoint:
        """Return the source of dead letters that are replayed; nobody connects to it."""
        log = str(self.home.log_of(REPLAYS))
        return SourceEndpoint(REPLAYS, "", 0, PickleDecoder, log, queue=str(self.home.replays))

    def _logs(self) -> dict[str, str]:
        """Return the folder of each source's log."""
        names = [*(pipeline.name for pipeline in self.application.pipelines), REPLAYS]
        return {name: str(self.home.log_of(name)) for name in names}

    def _folders_written(self) -> list[Path]:
        """Return the folders, besides the home, on whose disks Spark depends."""
        chosen = self.options.spark.conf.get("spark.local.dir", "")
        return [Path(folder) for folder in (tempfile.gettempdir(), temporary_folder(), *chosen.split(",")) if folder]
