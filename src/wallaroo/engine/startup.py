"""The startup of a run, in this order: the directory, the ingress, the egress, Spark, and the query."""

from __future__ import annotations

import contextlib
import secrets
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from wallaroo.addresses import Address
from wallaroo.connectors.dead_letter_replay.kind import ReplaySourceConfig
from wallaroo.connectors.registry import source_kind
from wallaroo.engine.delivery.collector import Collector
from wallaroo.engine.delivery.egress import Egress
from wallaroo.engine.delivery.error_policy import OnError
from wallaroo.engine.delivery.ingress_feedback import ReportedProgress
from wallaroo.engine.delivery.ledger import Ledger
from wallaroo.engine.delivery.worker_deaths import WorkerDeaths
from wallaroo.engine.directory.commit import Commits
from wallaroo.engine.directory.home import COMMIT, Home, remark_on
from wallaroo.engine.directory.resume import (
    ResumedLayout,
    check_sequence,
    check_work_left,
    layout_for,
    skip_damage,
    start_fresh,
)
from wallaroo.engine.directory.run_folder import run_folder
from wallaroo.engine.plan import Input, Layout, Plan
from wallaroo.engine.query_lifecycle import QueryEnvironment, QueryLifecycle
from wallaroo.engine.spark.cluster import DriverAddress, driver_address
from wallaroo.engine.spark.java import java_home
from wallaroo.engine.spark.memory import fitting_limits
from wallaroo.engine.spark.session import SparkOptions
from wallaroo.engine.transport.plan_file import own_serializers
from wallaroo.ingress.block_sequence import known_names
from wallaroo.ingress.client import IngressClient
from wallaroo.ingress.config import EPOCH_SECONDS, IngressConfig, SourceEndpoint, endpoint_of
from wallaroo.ingress.lanes import ends_by_source
from wallaroo.ingress.limits import Limits
from wallaroo.ingress.process import IngressProcess
from wallaroo.notices import Notice
from wallaroo.path_trust import untrusted_reason
from wallaroo.program import Program
from wallaroo.sizes import plural, readable_size
from wallaroo.topology.model import REPLAYS, Application


@dataclass(frozen=True)
class RunOptions:
    """What a user can choose."""

    home: Path | None = None
    reset: bool = False
    """Whether to start fresh; the contents of the directory are then archived."""
    skip_damaged: bool = False
    """Whether to skip damaged messages in the logs."""
    workers: int | None = None
    """The degree of parallelism; by default what the machine or the cluster offers."""
    buckets: int | None = None
    strict_keys: bool = False
    """Whether messages with a key that is not in `partition_keys` become dead letters."""
    effectively_once: bool = False
    """Whether blocks are framed with their numbers, for receivers that confirm them and drop repeats."""
    on_error: OnError = field(default_factory=OnError)
    epoch_seconds: float | None = None
    """The longest time between two commits."""
    limits: Limits = field(default_factory=Limits)
    spark: SparkOptions = field(default_factory=SparkOptions)


BUCKETS = 128
"""The number of buckets of a partitioned state, and so the maximum number of tasks that can share it."""


class Parts(NamedTuple):
    """The parts of a run."""

    commits: Commits
    ingress: IngressClient
    egress: Egress
    deaths: WorkerDeaths
    processing: QueryLifecycle


class _Ingress(NamedTuple):
    client: IngressClient
    control_path: str
    workers: str
    """The address for workers on other machines; empty if there are none."""


@dataclass
class Startup:
    """Opens all parts of a run. `cleanup` closes them in reverse order."""

    application: Application
    program: Program
    options: RunOptions
    home: Home
    cleanup: contextlib.ExitStack
    stopping: threading.Event
    """Set when sinks must no longer wait for their receivers."""
    say: Notice
    warn: Notice
    _token: str = field(init=False, default_factory=lambda: secrets.token_hex(16))
    _driver_address: DriverAddress | None = field(init=False)
    _sources: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self._driver_address = None if self.options.spark.local else driver_address(self.options.spark)
        self._sources = {pipeline.name: pipeline.source for pipeline in self.application.pipelines}
        self._sources[REPLAYS] = ReplaySourceConfig(str(self.home.replays))

    def open(self) -> Parts:
        """Open everything, and start the query."""
        limits = fitting_limits(self.options.limits, self.options.spark)
        self._prepare_directory()
        folder = self.cleanup.enter_context(run_folder())
        self._warn_if_untrusted(folder)
        self.home.link_from(folder)
        commits = Commits(self.home.path / COMMIT, self.home.states)
        resumed = layout_for(self.home, self.application, self.options.buckets or BUCKETS)
        known = self._known_block(commits)
        check_sequence(self.home, commits.block, known, skip=self.options.skip_damaged, notice=self.warn)
        check_work_left(self.home, commits, self._sources, resumed.gone, self.say)
        self._record(resumed)
        java = java_home(self.home.for_spark, self.warn)
        ingress = self._open_ingress(folder, commits, known, replace(self.options, limits=limits))
        resuming = " (resuming where it stopped)" if commits.block else ""
        self.say(f"  state in    {self.home.path}{resuming}{remark_on(self.home.path)}")
        plan = self._plan(resumed.layout)
        deaths = WorkerDeaths()
        notes = None if self._driver_address else folder / "notes"
        collector = self._open_hand_ins(folder, commits, deaths, notes)
        egress = self._open_egress(plan, commits, collector, ingress)
        around = QueryEnvironment(
            home=self.home,
            folder=folder,
            java=java,
            token=self._token,
            egress=egress,
            collector=collector,
            deaths=deaths,
            blocks=ingress.workers or ingress.control_path,
            messages=ingress.workers,
            notes=notes,
            driver_address=self._driver_address,
        )
        processing = QueryLifecycle(plan, self.options.spark, self.options.workers, around, self.warn)
        self.cleanup.callback(processing.close)
        # Runs first: a sink that waits for its receiver would keep the query from stopping.
        self.cleanup.callback(self.stopping.set)
        processing.start()
        egress.start()
        return Parts(commits, ingress.client, egress, deaths, processing)

    def _prepare_directory(self) -> None:
        self.home.open()
        self.cleanup.callback(self.home.close)
        self._warn_if_untrusted(self.home.path)
        if self.options.reset:
            start_fresh(self.home, self.say)
        self.home.recorded_layout()  # Changes nothing in a directory of another version.
        if self.options.skip_damaged:
            skip_damage(self.home, map(self.home.log_of, self._sources), self.warn)

    def _warn_if_untrusted(self, folder: Path) -> None:
        # Only a warning: in a container, volumes are often writable for all, and there are no other users.
        if why := untrusted_reason(folder):
            self.warn(f"Warning: {why}, and anyone who can write there can replace {folder}.")

    def _record(self, resumed: ResumedLayout) -> None:
        if resumed.change:
            self.say(f"  changed     {resumed.change}")
        if self.options.buckets and self.options.buckets != resumed.layout.buckets:
            self.say(f"  kept        {plural(resumed.layout.buckets, 'bucket')}: the state was made so")
        self.home.record_layout(self.application.name, resumed.layout)

    def _known_block(self, commits: Commits) -> int:
        """Return the first block of which nothing is known to be computed or sent."""
        with contextlib.closing(Ledger(self.home.ledger)) as ledger:
            return max(commits.block, ledger.next)

    def _open_ingress(self, folder: Path, commits: Commits, known: int, options: RunOptions) -> _Ingress:
        config = IngressConfig(
            self._endpoints(commits),
            f"{folder}/ingress",
            self._token,
            str(self.home.sequence),
            limits=options.limits,
            program=self.program.instructions(self.application),
            known_block=known,
            epoch_seconds=options.epoch_seconds or EPOCH_SECONDS,
            workers_host=self._driver_address.bind if self._driver_address else "",
        )
        process = IngressProcess(config, self.warn, self.home.lock)
        addresses = process.start()
        self.cleanup.callback(process.stop)
        for name, (host, port) in addresses.items():
            self.say(f"  listening   {host}:{port} for {name!r}")
        if options.limits.max_message_size < self.options.limits.max_message_size:
            size = readable_size(options.limits.max_message_size)
            self.say(f"  limited     to messages of {size}: there is too little memory for larger ones")
        workers = str(Address(self._driver_address.advertised, process.workers_port)) if self._driver_address else ""
        return _Ingress(IngressClient(config.control_path, self._token), config.control_path, workers)

    def _endpoints(self, commits: Commits) -> list[SourceEndpoint]:
        known = ends_by_source(commits.ends)
        return [
            endpoint_of(name, config, str(self.home.log_of(name)), known.get(name))
            for name, config in self._sources.items()
        ]

    def _input(self, name: str, config: Any) -> Input:
        kind = source_kind(config)
        # On a cluster, messages are fetched over the network: workers need no access to the logs.
        log = "" if self._driver_address else str(self.home.log_of(name))
        place = {**kind.place(config), "skip_damaged": self.options.skip_damaged}
        return Input(kind=kind.name, place=place, log=log)

    def _plan(self, layout: Layout) -> Plan:
        return Plan(
            self.application,
            layout,
            *own_serializers(self.program.home_module()),
            run_id=self._token,
            inputs={name: self._input(name, config) for name, config in self._sources.items()},
            sources=known_names(self.home.sequence, list(self._sources)),
            strict_keys=self.options.strict_keys,
            program=self.program,
        )

    def _open_hand_ins(self, folder: Path, commits: Commits, deaths: WorkerDeaths, notes: Path | None) -> Collector:
        if notes is not None:
            notes.mkdir(mode=0o700)
        address = str(Address(self._driver_address.bind, 0)) if self._driver_address else f"{folder}/outputs"
        collector = Collector(address, self._token, commits, deaths, notes)
        self.cleanup.callback(collector.close)
        return collector

    def _open_egress(self, plan: Plan, commits: Commits, collector: Collector, ingress: _Ingress) -> Egress:
        progress = ReportedProgress(IngressClient(ingress.control_path, self._token))
        self.cleanup.callback(progress.close)
        egress = Egress(
            plan,
            self.home,
            collector,
            commits,
            progress,
            self.stopping,
            self.warn,
            effectively_once=self.options.effectively_once,
            on_error=self.options.on_error,
        )
        self.cleanup.callback(egress.close)
        return egress
