"""What a run opens, in this order: the directory, the ingress, the egress, Spark, and the query."""

from __future__ import annotations

import contextlib
import secrets
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from wallaroo.channels import joined
from wallaroo.connectors.registry import source_kind
from wallaroo.connectors.replay.kind import ReplaySourceConfig
from wallaroo.engine.delivery.collector import Collector
from wallaroo.engine.delivery.egress import Egress
from wallaroo.engine.delivery.ledger import Ledger
from wallaroo.engine.delivery.progress import ReportedProgress
from wallaroo.engine.delivery.worker_deaths import WorkerDeaths
from wallaroo.engine.directory.commit import Commits
from wallaroo.engine.directory.home import COMMIT, Home, remark_on
from wallaroo.engine.directory.resume import Fit, check_work_left, layout_for, skip_what_is_damaged, start_fresh
from wallaroo.engine.directory.run_folder import run_folder
from wallaroo.engine.options import RunOptions
from wallaroo.engine.plan import Input, Layout, Plan
from wallaroo.engine.query_lifecycle import QueryEnvironment, QueryLifecycle
from wallaroo.engine.spark.driver_address import reach
from wallaroo.engine.spark.java import java_home
from wallaroo.engine.spark.memory import fitting_limits
from wallaroo.engine.transport.plan_file import own_serializers
from wallaroo.ingress.client import IngressClient
from wallaroo.ingress.config import EPOCH_SECONDS, IngressConfig, SourceEndpoint, endpoint_of
from wallaroo.ingress.process import IngressProcess
from wallaroo.ingress.sequence import known_names
from wallaroo.notices import Notice
from wallaroo.permissions import stranger
from wallaroo.program import Program
from wallaroo.sizes import plural, readable_size
from wallaroo.topology.model import REPLAYS, Application

BUCKETS = 128
"""Into how many parts a partitioned state is cut: so many tasks can share it."""
_SHORTEST_EPOCH = 0.2
"""In seconds. The change from one epoch to the next takes about as long."""


class Parts(NamedTuple):
    """What a run consists of."""

    commits: Commits
    ingress: IngressClient
    egress: Egress
    deaths: WorkerDeaths
    processing: QueryLifecycle


class _Ingress(NamedTuple):
    client: IngressClient
    control_path: str
    workers: str
    """Where workers on other machines find it; empty where there are none."""


@dataclass
class Startup:
    """Opens all parts of a run. What is opened is closed by `cleanup`, in the opposite order."""

    application: Application
    program: Program
    options: RunOptions
    home: Home
    cleanup: contextlib.ExitStack
    stopping: threading.Event
    """Set when sinks are not to wait for their receivers any more."""
    say: Notice
    warn: Notice

    def __post_init__(self) -> None:
        self._token = secrets.token_hex(16)
        self._reach = None if self.options.spark.local else reach(self.options.spark)
        self._sources: dict[str, Any] = {pipeline.name: pipeline.source for pipeline in self.application.pipelines}
        self._sources[REPLAYS] = ReplaySourceConfig(str(self.home.replays))

    def open(self) -> Parts:
        """Open everything up to the query, which then runs."""
        limits = fitting_limits(self.options.limits, self.options.spark)
        self._prepare_directory()
        folder = self.cleanup.enter_context(run_folder())
        self._warn_of_strangers(folder)
        self.home.link_from(folder)
        commits = Commits(self.home.path / COMMIT, self.home.states)
        fit = layout_for(self.home, self.application, self.options.buckets or BUCKETS)
        check_work_left(self.home, commits, self._sources, fit.gone, self.say)
        self._record(fit)
        java = java_home(self.home.for_spark, self.warn)
        ingress = self._open_ingress(folder, commits, replace(self.options, limits=limits))
        going_on = " (going on where it stopped)" if commits.block else ""
        self.say(f"  state in    {self.home.path}{going_on}{remark_on(self.home.path)}")
        plan = self._plan(fit.layout)
        deaths = WorkerDeaths()
        notes = None if self._reach else folder / "notes"
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
            reach=self._reach,
        )
        processing = QueryLifecycle(plan, self.options.spark, self.options.workers, around, self.warn)
        self.cleanup.callback(processing.close)
        # Comes before that: a sink that waits for its receiver would keep the query from stopping.
        self.cleanup.callback(self.stopping.set)
        processing.start()
        egress.start()
        return Parts(commits, ingress.client, egress, deaths, processing)

    def _prepare_directory(self) -> None:
        self.home.open()
        self.cleanup.callback(self.home.close)
        self._warn_of_strangers(self.home.path)
        if self.options.reset:
            start_fresh(self.home, self.say)
        self.home.recorded_layout()  # Nothing is touched in a directory of another version's.
        if self.options.skip_damaged:
            skip_what_is_damaged(self.home, map(self.home.log_of, self._sources), self.warn)

    def _warn_of_strangers(self, folder: Path) -> None:
        # Nothing to refuse: in a container, volumes are often open to all, and nobody else is there.
        if why := stranger(folder):
            self.warn(f"Careful: {why}, and who can write there can put something else in the place of {folder}.")

    def _record(self, fit: Fit) -> None:
        if fit.change:
            self.say(f"  changed     {fit.change}")
        if self.options.buckets and self.options.buckets != fit.layout.buckets:
            self.say(f"  kept        {plural(fit.layout.buckets, 'bucket')}: the state was made so")
        self.home.record_layout(self.application.name, fit.layout)

    def _open_ingress(self, folder: Path, commits: Commits, options: RunOptions) -> _Ingress:
        with contextlib.closing(Ledger(self.home.ledger)) as ledger:
            known = max(commits.block, ledger.next)
        config = IngressConfig(
            self._endpoints(commits),
            f"{folder}/ingress",
            self._token,
            str(self.home.sequence),
            limits=options.limits,
            program=self.program.instructions(self.application),
            known_block=known,
            epoch_seconds=max(options.epoch_seconds or EPOCH_SECONDS, _SHORTEST_EPOCH),
            workers_host=self._reach.bind if self._reach else "",
        )
        process = IngressProcess(config, self.warn, self.home.lock)
        addresses = process.start()
        self.cleanup.callback(process.stop)
        for name, (host, port) in addresses.items():
            self.say(f"  listening   {host}:{port} for {name!r}")
        if options.limits.max_message_size < self.options.limits.max_message_size:
            size = readable_size(options.limits.max_message_size)
            self.say(f"  limited     to messages of {size}: there is too little memory for larger ones")
        workers = joined(self._reach.told, process.workers_port) if self._reach else ""
        return _Ingress(IngressClient(config.control_path, self._token), config.control_path, workers)

    def _endpoints(self, commits: Commits) -> list[SourceEndpoint]:
        return [
            endpoint_of(name, config, str(self.home.log_of(name)), commits.ends.get(name, 0))
            for name, config in self._sources.items()
        ]

    def _input(self, name: str, config: Any) -> Input:
        kind = source_kind(config)
        # On a cluster, messages are fetched: workers there need not see the logs.
        log = "" if self._reach else str(self.home.log_of(name))
        return Input(kind=kind.name, place=kind.place(config), log=log)

    def _plan(self, layout: Layout) -> Plan:
        return Plan(
            self.application,
            layout,
            *own_serializers(self.program.home_module()),
            run_id=self._token,
            inputs={name: self._input(name, config) for name, config in self._sources.items()},
            sources=known_names(self.home.sequence, list(self._sources)),
            program=self.program,
        )

    def _open_hand_ins(self, folder: Path, commits: Commits, deaths: WorkerDeaths, notes: Path | None) -> Collector:
        if notes is not None:
            notes.mkdir(mode=0o700)
        address = joined(self._reach.bind, 0) if self._reach else f"{folder}/outputs"
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
