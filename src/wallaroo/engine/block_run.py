"""A run in which messages are processed as they arrive: on Spark's real-time mode, block by block."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from wallaroo.connectors.base import StoppedError
from wallaroo.engine.delivery.block_egress import BlockEgress
from wallaroo.engine.delivery.deaths import Deaths
from wallaroo.engine.delivery.hand_ins import Expected, HandIns
from wallaroo.engine.delivery.ledger import Ledger
from wallaroo.engine.directory.commit import Commits
from wallaroo.engine.directory.going_on import start_fresh
from wallaroo.engine.directory.home import COMMIT
from wallaroo.engine.directory.layouts import fitted, new_layout
from wallaroo.engine.directory.run_folder import run_folder
from wallaroo.engine.failure import Failure, Kind
from wallaroo.engine.main import Run, Stop
from wallaroo.engine.plan import Layout, Plan
from wallaroo.engine.spark.failures import cannot_go_on, failure_of_query, failure_of_start, last_words
from wallaroo.engine.spark.java import java_home
from wallaroo.engine.spark.session import spark_session
from wallaroo.engine.stages.state_store import BucketName
from wallaroo.engine.transport.shipping import PlanRef, own_serializers
from wallaroo.ingress.client import IngressClient
from wallaroo.ingress.config import IngressConfig
from wallaroo.ingress.log_repair import skip_damaged
from wallaroo.ingress.process import IngressProcess
from wallaroo.ingress.sequence import known_names

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

BUCKETS = 128
"""Into how many parts a partitioned state is cut: so many tasks can share it."""
_MOST_TASKS_BY_DEFAULT = 8
_LOOK_SECONDS = 0.01
_END_SECONDS = 2.0
"""How long to wait for the line of a worker to end that has made the query fail: it was before Spark could notice."""

REAL_TIME = {
    # Python operators are not on the list of what Spark has tried in this mode.
    "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
    "spark.sql.streaming.realTimeMode.minBatchDuration": "1000",
    # An epoch counts when we have committed it, which is before Spark does.
    "spark.sql.streaming.realTimeMode.asyncProgressTrackingByDefault.enabled": "false",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    # A row is a share of a block, and goes at once: the JVM writes to a worker while it reads from it, through buffers
    # in which nothing waits for more.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.python.udf.pipelined.enabled": "true",
    "spark.python.udf.pipelined.queueDepth": "1",
    "spark.sql.execution.python.udf.buffer.size": "64",
    "spark.buffer.size": "64",
    # Rows go from stage to stage in memory: Spark's own way listens on every interface of the machine.
    "spark.shuffle.manager.incremental": "wallaroo.OneProcessShuffle",
}


class BlockRun(Run):
    """One run of an application."""

    def _start(self) -> None:
        self._attempt = ""
        self._left = ""
        self._deaths = Deaths()
        self._learned = False
        """Whether the last death says more than what was known before."""
        if self.options.reset:
            start_fresh(self.home, self._say)
        self.home.refuse_the_other_way(in_batches=False)
        self._skip_damaged()
        self._folder = self._cleanup.enter_context(run_folder())
        self.home.link_from(self._folder)
        commits = Commits(self.home.path / COMMIT, self.home.path / "states")
        layout = self._layout(commits)
        self._tasks = self.options.workers or _cores(self.options.spark.master)
        levels = len(layout.levels)
        self._start_ingress_with_sequence(commits)
        plan = Plan(
            self.application,
            layout,
            *own_serializers(self._module),
            run_id=self._token,
            logs=self._logs(),
            sources=known_names(self.home.path / "sequence", list(self._logs())),
        )
        self._start_egress(plan, commits)
        self._java = java_home(self.home.for_spark, self._warn)
        self._levels = levels
        self._commits = commits
        self._ref = PlanRef.write(plan, self.home.for_spark / "plan.pickle")
        self._spark = self._cleanup.enter_context(contextlib.ExitStack())
        self._start_spark()
        self._begin_query()
        self._cleanup.callback(self._stop_quietly)
        self._client.tick()
        self._wait_for_first_block()

    def _skip_damaged(self) -> None:
        """Have the logs go on without what the disk has damaged, if somebody has said so."""
        for log in self._logs().values() if self.options.skip_damaged else ():
            for text in skip_damaged(Path(log)):
                self._warn(text)

    def _start_spark(self) -> None:
        slots = self._tasks * (self._levels + 1)
        spark = replace(self.options.spark, master=f"local[{slots}]", conf=REAL_TIME | self.options.spark.conf)
        self._session = self._spark.enter_context(
            spark_session(self.application.name, self.home, spark, self._java, self._folder, self._warn)
        )
        self._session.conf.set("spark.sql.shuffle.partitions", self._tasks)

    def _layout(self, commits: Commits) -> Layout:
        recorded = self.home.recorded_layout()
        if recorded is not None and commits.block:
            fit = fitted(recorded[1], self.application.pipelines)
            if fit.change:
                self._say(f"  changed     {fit.change}")
            layout = fit.layout
        else:
            layout = new_layout(self.application.pipelines, 1, self.options.buckets or BUCKETS)
        self.home.record_layout(self.application.name, layout)
        return layout

    def _start_ingress_with_sequence(self, commits: Commits) -> None:
        with contextlib.closing(Ledger(self.home.ledger)) as ledger:
            known = max(commits.block, ledger.next)
        endpoints = [*map(self._endpoint, self.application.pipelines), self._replays()]
        config = IngressConfig(
            endpoints,
            f"{self._folder}/ingress",
            self._token,
            limits=self.options.limits,
            sequence=str(self.home.path / "sequence"),
            known_block=known,
        )
        ingress = IngressProcess(config, self._warn, self.home.lock)
        addresses = ingress.start()
        self._cleanup.callback(ingress.stop)
        self._control_path = config.control_path
        self._client = IngressClient(config.control_path, self._token)
        for name, (host, port) in addresses.items():
            self._say(f"  listening   {host}:{port} for {name!r}")
        self._say(f"  state in    {self.home.path}" + (" (going on where it stopped)" if commits.block else ""))

    def _start_egress(self, plan: Plan, commits: Commits) -> None:
        levels = len(plan.layout.levels)
        tasks = self._tasks

        def owner(name: BucketName) -> tuple[int, int]:
            return plan.layout.states[name[0]].level, plan.placement(name[0], tasks)(name[1])

        expected = Expected(tasks if levels else 1, tasks * max(levels, 1), owner)
        self._notes = self._folder / "notes"
        self._notes.mkdir(mode=0o700)
        self._hand_ins = HandIns(self._folder / "outputs", self._token, commits, expected, self._deaths, self._notes)
        self._cleanup.callback(self._hand_ins.close)
        egress = BlockEgress(
            plan,
            self.home,
            self._stopping,
            self._warn,
            effectively_once=self.options.effectively_once,
            on_error=self.options.on_error,
        )
        self._egress = self._blocks = egress
        self._cleanup.callback(egress.close)
        egress.attach(self._hand_ins, commits, Teller(IngressClient(self._control_path, self._token)))
        egress.connect()
        thread = threading.Thread(target=egress.run, name="wallaroo-egress", daemon=True)
        thread.start()
        self._cleanup.callback(thread.join, 10)
        self._cleanup.callback(egress.halt)
        self._cleanup.callback(self._stopping.set)

    def _begin_query(self) -> None:
        from wallaroo.engine.block_query import start_block_query  # noqa: PLC0415 - imports Spark
        from wallaroo.engine.stages.tasks import TaskSettings  # noqa: PLC0415

        self._attempt = secrets.token_hex(8)
        start = self._blocks.begin(self._attempt)
        settings = TaskSettings(
            plan=self._ref,
            address=self._hand_ins.address,
            token=self._token,
            attempt=self._attempt,
            partitions=self._tasks,
            readers=self._tasks,
            levels=self._levels,
            states=str(self.home.path / "states"),
            notes=str(self._notes),
        )
        # Spark's own notes of where it is are of no use behind this attempt: the commit says where to begin.
        notes = self._folder / "query" / self._attempt
        self._query: StreamingQuery = start_block_query(self._session, settings, self._control_path, start, notes)

    def _wait_for_first_block(self) -> None:
        """Wait until a block has gone all the way: then classes are loaded, workers started, and all is warm."""
        while not self._blocks.batches:
            if not self._keeps_going():
                raise cannot_go_on("its query has ended", self.home)
            time.sleep(_LOOK_SECONDS)

    def _keeps_going(self) -> bool:
        """Tell whether the query runs; start it again from the last commit where it has ended."""
        if self._blocks.failure is not None:
            if isinstance(self._blocks.failure, StoppedError):
                return False
            raise self._blocks.failure
        self._comeback.progress(self._blocks.batches)
        active = self._is_active()
        if active:
            if (held_up := self._blocks.held_up) is not None:
                self._comeback.hold_up(str(held_up))
            self._egress.sum_up()
            return True
        return self._comes_back(Failure(Kind.LOST, last_words(self.home)) if active is None else self._failure())

    def _failure(self) -> Failure:
        """Return why the query has failed; where a worker died, take note of what it was at."""
        told = failure_of_query(self._query)
        if told.kind != Kind.LOST:
            return told  # The JVM has failed by itself, and has ended the workers.
        end = self._hand_ins.first_end(_END_SECONDS)
        if end is None:
            return told
        if end.failure is not None:
            return end.failure
        if end.death is not None:
            self._learned = self._deaths.take(end.death)
        return told

    def _comes_back(self, failure: Failure) -> bool:
        """Start the query again from the last commit, when it may; return false where the run is to stop instead."""
        while self._comeback.wait(failure, self._blocks.batches, self._deaths.fatal_calls(), learned=self._learned):
            self._learned = False
            try:
                if self._is_active() is None:
                    self._spark.close()
                    self._start_spark()
                self._begin_query()
                # A block without messages shows that all is well again, also where no message comes.
                self._client.tick()
            except Exception as error:  # noqa: BLE001 - Spark's own, of many classes; it is looked at above
                failure = failure_of_start(error)
            else:
                return True
        self._left = failure.text
        return False

    def _is_active(self) -> bool | None:
        """Tell whether the query runs; None where there is no Spark any more to ask."""
        from py4j.protocol import Py4JError  # noqa: PLC0415 - comes with Spark, which only a run needs

        try:
            return bool(self._query.isActive)
        except (Py4JError, OSError):
            return None

    def _finish_batch(self, stop: Stop) -> None:
        """Take nothing new, and commit what is under way."""
        self._stopping.set()
        self._client.drain()
        end = self._client.end_epoch()
        while end is not None and self._commits.block < end and not stop.at_once.is_set():
            if self._blocks.held_up is not None:
                self._left = str(self._blocks.held_up)
            elif not self._is_active():
                self._left = "its query has ended"
            if self._left or self._blocks.failure is not None:
                break
            time.sleep(_LOOK_SECONDS)

    def _stop_quietly(self) -> None:
        with contextlib.suppress(Exception):
            self._query.stop()

    def _raise_failure(self) -> None:
        if self._blocks.failure is not None and not isinstance(self._blocks.failure, StoppedError):
            raise self._blocks.failure
        if self._left:
            self._warn(f"The blocks under way are left to the next run: {self._left}")


class Teller:
    """Tells the ingress, in a thread of its own, how far blocks are delivered and committed."""

    def __init__(self, client: IngressClient) -> None:
        self._client = client
        self._changed = threading.Condition()
        self._latest: dict[str, int] = {}
        threading.Thread(target=self._run, name="wallaroo-teller", daemon=True).start()

    def __call__(self, what: str, block: int) -> None:
        """Tell it; what has been overtaken need not be told."""
        with self._changed:
            self._latest[what] = block
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._latest))
                latest, self._latest = self._latest, {}
            with contextlib.suppress(Exception):  # An ingress that is started again asks for nothing old.
                if "delivered" in latest:
                    self._client.delivered(latest["delivered"])
                if "committed" in latest:
                    self._client.committed(latest["committed"])


def _cores(master: str) -> int:
    """Return how many tasks a stage has by default.

    >>> _cores("local[3]")
    3
    """
    named = re.fullmatch(r"local\[(\d+)\]", master)
    return int(named[1]) if named else min(os.cpu_count() or 1, _MOST_TASKS_BY_DEFAULT)
