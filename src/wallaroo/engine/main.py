"""A whole run of an application: from the built topology to the last batch."""

from __future__ import annotations

import contextlib
import re
import secrets
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from wallaroo.api.configs import TCPSourceConfig
from wallaroo.api.generators import GenSourceConfig, PickleDecoder
from wallaroo.connectors.base import Notice, StoppedError, never_failing
from wallaroo.engine.comeback import Comeback
from wallaroo.engine.delivery.egress import Egress
from wallaroo.engine.delivery.on_error import OnError
from wallaroo.engine.directory.going_on import found_in, start_fresh
from wallaroo.engine.directory.home import Home, default_home
from wallaroo.engine.directory.layouts import new_layout
from wallaroo.engine.directory.mending import mend
from wallaroo.engine.directory.plain_names import refuse_if_not_plain
from wallaroo.engine.directory.progress import read_progress
from wallaroo.engine.directory.recorded_paths import renew_recorded_paths
from wallaroo.engine.directory.run_folder import run_folder, temporary_folder
from wallaroo.engine.plan import Layout, Plan
from wallaroo.engine.spark.failures import account, cannot_go_on, cause, failure_in, told_plainly
from wallaroo.engine.spark.java import java_home
from wallaroo.engine.spark.memory import available
from wallaroo.engine.spark.message_room import fitting_limits, largest_message
from wallaroo.engine.spark.preflight import check_before_start
from wallaroo.engine.spark.session import SparkOptions, spark_session
from wallaroo.engine.transport.shipping import PlanRef, bundle_modules, own_serializers
from wallaroo.errors import ErrorPolicyError
from wallaroo.ingress.client import IngressClient
from wallaroo.ingress.config import IngressConfig, SourceEndpoint
from wallaroo.ingress.limits import Limits
from wallaroo.ingress.process import IngressProcess
from wallaroo.sizes import readable_size
from wallaroo.topology.model import REPLAYS, Application, Pipeline
from wallaroo.trust import stranger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
        module: ModuleType | None,
        options: RunOptions,
        say: Notice,
        warn: Notice,
    ) -> None:
        self.application = application
        self.options = options
        self.home = Home(options.home or default_home(application.name))
        self._module = module
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

    def _start(self) -> None:
        if self.options.reset:
            start_fresh(self.home, self._say)
        self.home.recorded_layout()  # Nothing is touched in a directory of another version's.
        self.home.refuse_the_other_way(in_batches=True)
        mend(self.home, map(Path, self._logs().values()) if self.options.skip_damaged else (), self._warn)
        name = self.application.name
        found = found_in(self.home, self.application, self._logs(), self._say)
        self._folder = self._cleanup.enter_context(run_folder())
        self._warn_of_strangers(self._folder)
        self.home.link_from(self._folder)
        renew_recorded_paths(self.home.checkpoint, self.home.for_spark / "checkpoint")
        java = java_home(self.home.for_spark, self._warn)
        self._start_ingress()
        self._say(f"  state in    {self.home.path}" + (" (going on where it stopped)" if found else ""))
        session = self._cleanup.enter_context(
            spark_session(name, self.home, self.options.spark, java, self._folder, self._warn)
        )
        layout = found.layout if found else self._new_layout(session)
        if found and found.change:
            self._say(f"  changed     {found.change}")
        if not found or found.change:
            self.home.record_layout(name, layout)
        self._tell_kept(layout)
        session.conf.set("spark.sql.shuffle.partitions", layout.partitions)
        plan = Plan(
            self.application,
            layout,
            *own_serializers(self._module),
            run_id=self._token,
            logs=self._logs(),
            spool=self._folder_on_one_machine("outputs"),
            notes=self._folder_on_one_machine("notes"),
        )
        if not self.options.spark.local and (bundle := bundle_modules(self.home.path / "modules.zip")):
            session.sparkContext.addPyFile(str(bundle))
        if not self.home.checkpoint.exists():
            self.home.ledger.unlink(missing_ok=True)  # It counts the batches of a checkpoint that is gone.
        self._egress = Egress(
            plan,
            self.home,
            self._stopping,
            self._warn,
            effectively_once=self.options.effectively_once,
            on_error=self.options.on_error,
        )
        self._cleanup.callback(self._egress.close)
        self._egress.connect()
        self._start_query(session, plan)
        self._warm_up()

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

    def _tell_kept(self, layout: Layout) -> None:
        """Say so where the state that is there decides, and not what was asked for."""
        asked = (self.options.workers or layout.partitions, self.options.buckets or layout.buckets)
        if asked != (layout.partitions, layout.buckets):
            self._say(
                f"  kept        {layout.partitions} partitions, {layout.buckets} buckets: the state was made with them"
            )

    def _new_layout(self, session: SparkSession) -> Layout:
        partitions = self.options.workers or _offered_parallelism(session, self.options.spark)
        buckets = self.options.buckets or partitions * _BUCKETS_PER_PARTITION
        return new_layout(self.application.pipelines, partitions, buckets)

    def _start_ingress(self) -> None:
        known = read_progress(self.home.checkpoint).planned
        endpoints = [*map(self._endpoint, self.application.pipelines), self._replays()]
        endpoints = [replace(endpoint, known=known.get(endpoint.name, 0)) for endpoint in endpoints]
        config = IngressConfig(endpoints, f"{self._folder}/ingress", self._token, limits=self._limits)
        ingress = IngressProcess(config, self._warn, self.home.lock)
        addresses = ingress.start()
        self._cleanup.callback(ingress.stop)
        self._control_path = config.control_path
        self._client = IngressClient(config.control_path, self._token)
        for name, (host, port) in addresses.items():
            self._say(f"  listening   {host}:{port} for {name!r}")
        if self._limits.max_message_size < self.options.limits.max_message_size:
            size = readable_size(self._limits.max_message_size)
            self._say(f"  limited     to messages of {size}: there is too little memory for larger ones")

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

    def _start_query(self, session: SparkSession, plan: Plan) -> None:
        from wallaroo.engine.query import prepare_workers, start_query  # noqa: PLC0415 - imports Spark
        from wallaroo.engine.source import SourceSettings  # noqa: PLC0415

        ref = PlanRef.write(plan, self.home.for_spark / "plan.pickle")
        prepare_workers(session, ref, plan.layout.partitions)
        settings = self.home.for_spark / "source.json"
        SourceSettings(
            logs=plan.logs,
            control_path=self._control_path,
            token=self._token,
            plan=ref.path,
            digest=ref.digest,
            partitions=plan.layout.partitions,
            carriers=list(plan.layout.carriers),
            batch_bytes=self._batch_bytes(),
        ).write(settings)
        levels = len(plan.layout.levels)
        checkpoint = self.home.for_spark / self.home.checkpoint.name
        self._batch_left_over = read_progress(self.home.checkpoint).batch_under_way
        self._launch = partial(start_query, session, ref, levels, settings, self._egress, checkpoint)
        self._query = self._launch()
        self._cleanup.callback(_quietly, self._stop_query)
        # Comes before that: a sink that waits for its receiver would keep the query from stopping.
        self._cleanup.callback(self._stopping.set)

    def _batch_bytes(self) -> int:
        """Return how much of the logs a batch takes: no more at a time than one message may be large."""
        most = min(self.options.batch_bytes, largest_message(self.options.spark, available()))
        # Without files for them, all outputs of a batch are in the JVM's memory at the same time.
        return most if self.options.spark.local else most // 4

    def _stop_query(self) -> None:
        self._query.stop()

    def _folders_written(self) -> list[Path]:
        """Return the folders, besides the home, on whose disks Spark depends."""
        chosen = self.options.spark.conf.get("spark.local.dir", "")
        return [Path(folder) for folder in (tempfile.gettempdir(), temporary_folder(), *chosen.split(",")) if folder]

    def _keeps_going(self) -> bool:
        """Tell whether the query runs; start it again where it has ended with a failure that passes."""
        if self._query.isActive:
            self._comeback.progress(self._egress.batches)
            self._egress.sum_up()
            return True
        if isinstance(self._egress.failure, ErrorPolicyError):
            raise self._egress.failure
        failure: Exception | None = self._query.exception()
        if failure is None or isinstance(self._egress.failure, StoppedError):
            return False
        while self._comeback.wait(
            failure_in(account(failure)), self._egress.batches, self._egress.fatal_calls(account(failure))
        ):
            try:
                self._query = self._launch()
            except Exception as error:  # noqa: BLE001 - Spark's own, of many classes; it is looked at above
                failure = error
            else:
                # A batch without messages shows that all is well again, also where no message comes.
                self._client.nudge()
                return True
        return False

    def _warm_up(self) -> None:
        """Run some batches without messages: the first ones load classes, start workers and import the application."""
        if self._batch_left_over:
            self._say("  finishing   the batch that the last run had under way; its receivers have to be there")
        for _ in range(_WARM_UP_BATCHES):
            before = self._egress.batches
            nudged = 0.0
            while self._egress.batches == before:
                if time.monotonic() - nudged > _NUDGE_AGAIN_SECONDS:
                    # An ingress that was started again has forgotten the last one.
                    self._client.nudge()
                    nudged = time.monotonic()
                if not self._keeps_going():
                    raise cannot_go_on("its query has ended", self.home)
                time.sleep(0.01)

    def _finish_batch(self, stop: Stop) -> None:
        """Take nothing new, and let the batch in flight come to its end."""
        self._stopping.set()
        self._client.drain()
        idle = 0
        while self._query.isActive and idle < 10 and not stop.at_once.is_set():
            # Between batches the query asks its source how far it has got, which after draining is: no further.
            message = str(self._query.status["message"])
            idle = idle + 1 if re.match(r"Waiting|Getting offsets|No new data", message) else 0
            time.sleep(0.02)

    def _raise_failure(self) -> None:
        if self._query.isActive or isinstance(self._egress.failure, StoppedError):
            return
        if isinstance(self._egress.failure, ErrorPolicyError):
            raise self._egress.failure
        error = self._query.exception()
        if error is None:
            return
        reason = cause(account(error))
        if not self._comeback.passes(failure_in(account(error))):
            raise cannot_go_on(reason, self.home)
        self._warn(f"The batch under way is left to the next run: {reason}")


def _offered_parallelism(session: SparkSession, options: SparkOptions) -> int:
    context = session.sparkContext
    if options.local:
        return min(context.defaultParallelism, _MOST_PARTITIONS_BY_DEFAULT)
    # The executors of a cluster take a moment to report how many cores they have.
    deadline = time.monotonic() + 20
    while context._jsc.sc().getExecutorMemoryStatus().size() < 2 and time.monotonic() < deadline:  # noqa: SLF001
        time.sleep(0.1)
    return context.defaultParallelism


def _quietly(action: Callable[[], Any]) -> None:
    """Do something at the end of a run whose failure would change nothing."""
    with contextlib.suppress(Exception):
        action()
