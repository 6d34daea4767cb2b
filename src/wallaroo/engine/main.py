"""A whole run of an application: from the built topology to the last batch."""

from __future__ import annotations

import contextlib
import re
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from wallaroo.api.configs import TCPSourceConfig
from wallaroo.api.generators import GenSourceConfig
from wallaroo.connectors.base import Notice, StoppedError, never_failing
from wallaroo.engine.egress import Egress
from wallaroo.engine.failures import cannot_go_on, cause, told_plainly
from wallaroo.engine.home import Home, check_layout, default_home
from wallaroo.engine.plan import Layout, Plan
from wallaroo.engine.session import SparkOptions, spark_session
from wallaroo.engine.shipping import PlanRef, bundle_modules, own_serializers
from wallaroo.ingress.client import IngressClient
from wallaroo.ingress.config import IngressConfig, SourceEndpoint
from wallaroo.ingress.process import IngressProcess
from wallaroo.topology.levels import state_levels
from wallaroo.topology.model import Application, Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

READY = "Application has successfully initialized."
_MOST_PARTITIONS_BY_DEFAULT = 8
_BUCKETS_PER_PARTITION = 4
_WARM_UP_BATCHES = 3


@dataclass(frozen=True)
class RunOptions:
    """How to run an application."""

    home: Path | None = None
    workers: int | None = None
    """The degree of parallelism; by default what the machine or the cluster offers."""
    buckets: int | None = None
    batch_bytes: int = 16 << 20
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

    def run(self, stop: Stop) -> None:
        """Start, say so, and go on until asked to stop; raises a WallarooError if the application cannot go on."""
        with self._cleanup:
            self.home.open()
            self._cleanup.callback(self.home.close)
            with told_plainly(self.home):
                self._start()
                stop.ready = True
                self._say(READY)
                while not stop.requested.wait(0.25) and self._query.isActive:
                    pass
                if stop.requested.is_set():
                    self._warn("Stopping after the batch under way; at a second signal, at once.")
                    self._finish_batch(stop)
                self._raise_failure()
        self._say(
            f"Stopped: {self._egress.messages_out:,} messages sent, {self._egress.errors:,} dead letters in this run."
        )

    def _start(self) -> None:
        recorded = check_layout(self.home, self.application.name, self._layout(1))
        self._start_ingress()
        self._say(f"  state in    {self.home.path}" + (" (going on where it stopped)" if recorded else ""))
        session = self._cleanup.enter_context(spark_session(self.application.name, self.home, self.options.spark))
        layout = recorded or self._new_layout(session)
        self._tell_kept(layout)
        session.conf.set("spark.sql.shuffle.partitions", layout.partitions)
        plan = Plan(self.application, layout, *own_serializers(self._module), run_id=self._token)
        if not self.options.spark.local and (bundle := bundle_modules(self.home.path / "modules.zip")):
            session.sparkContext.addPyFile(str(bundle))
        if not self.home.checkpoint.exists():
            self.home.ledger.unlink(missing_ok=True)  # It counts the batches of a checkpoint that is gone.
        self._egress = Egress(plan, self.home, self._stopping, self._warn)
        self._cleanup.callback(self._egress.close)
        self._egress.connect()
        self._start_query(session, plan)
        self._warm_up()

    def _tell_kept(self, layout: Layout) -> None:
        """Say so where the state that is there decides, and not what was asked for."""
        asked = (self.options.workers or layout.partitions, self.options.buckets or layout.buckets)
        if asked != (layout.partitions, layout.buckets):
            self._say(
                f"  kept        {layout.partitions} partitions, {layout.buckets} buckets: the state was made with them"
            )

    def _layout(self, partitions: int) -> Layout:
        levels = state_levels(self.application.pipelines)
        return Layout(
            levels=tuple(tuple(state.name for state in level) for level in levels),
            singles=frozenset(state.name for level in levels for state in level if not state.partitioned),
            partitions=partitions,
            buckets=self.options.buckets or partitions * _BUCKETS_PER_PARTITION,
        )

    def _new_layout(self, session: SparkSession) -> Layout:
        layout = self._layout(self.options.workers or _offered_parallelism(session, self.options.spark))
        self.home.record_layout(self.application.name, layout)
        return layout

    def _start_ingress(self) -> None:
        folder = tempfile.mkdtemp(prefix="wallaroo-")  # Paths of sockets must be short; the home's may be long.
        self._cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
        endpoints = [self._endpoint(pipeline) for pipeline in self.application.pipelines]
        config = IngressConfig(endpoints, control_path=f"{folder}/ingress", token=self._token)
        ingress = IngressProcess(config, self._warn)
        addresses = ingress.start()
        self._cleanup.callback(ingress.stop)
        self._control_path = config.control_path
        self._client = IngressClient(config.control_path, self._token)
        for name, (host, port) in addresses.items():
            self._say(f"  listening   {host}:{port} for {name!r}")

    def _endpoint(self, pipeline: Pipeline) -> SourceEndpoint:
        source = pipeline.source
        log = str(self.home.log_of(pipeline.name))
        if isinstance(source, GenSourceConfig):
            return SourceEndpoint(pipeline.name, "", 0, source.decoder, log, source.generator)
        assert isinstance(source, TCPSourceConfig)
        return SourceEndpoint(pipeline.name, *source.address, source.decoder, log)

    def _start_query(self, session: SparkSession, plan: Plan) -> None:
        from wallaroo.engine.query import start_query  # noqa: PLC0415 - imports Spark
        from wallaroo.engine.source import SourceSettings  # noqa: PLC0415

        ref = PlanRef.write(plan, self.home.path / "plan.pickle")
        settings = self.home.path / "source.json"
        SourceSettings(
            logs={p.name: str(self.home.log_of(p.name)) for p in self.application.pipelines},
            control_path=self._control_path,
            token=self._token,
            plan=ref.path,
            digest=ref.digest,
            partitions=plan.layout.partitions,
            carriers=list(plan.layout.carriers),
            batch_bytes=self.options.batch_bytes,
        ).write(settings)
        levels = len(plan.layout.levels)
        self._query = start_query(session, ref, levels, settings, self._egress, self.home.checkpoint)
        self._cleanup.callback(_quietly, self._query.stop)
        # Comes before that: a sink that waits for its receiver would keep the query from stopping.
        self._cleanup.callback(self._stopping.set)

    def _warm_up(self) -> None:
        """Run some batches without messages: the first ones load classes, start workers and import the application."""
        if self._batch_left_over():
            self._say("  finishing   the batch that the last run had under way; its receivers have to be there")
        for _ in range(_WARM_UP_BATCHES):
            before = self._egress.batches
            self._client.nudge()
            while self._egress.batches == before:
                self._raise_failure()
                time.sleep(0.01)

    def _batch_left_over(self) -> bool:
        """Tell whether the last run had planned a batch that it did not finish."""
        planned, finished = (
            max((int(path.name) for path in (self.home.checkpoint / kind).glob("[0-9]*")), default=-1)
            for kind in ("offsets", "commits")
        )
        return planned > finished

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
        error = self._query.exception()
        if error is not None:
            raise cannot_go_on(cause(str(error)), self.home)


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
