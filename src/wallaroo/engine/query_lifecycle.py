"""Spark's part of a run: a session, and in it one attempt of the query after the other."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from wallaroo.addresses import Address, parse_address
from wallaroo.engine.delivery.collector import Collector, Expected
from wallaroo.engine.delivery.egress import Egress
from wallaroo.engine.delivery.worker_deaths import WorkerDeaths
from wallaroo.engine.directory.home import Home
from wallaroo.engine.failure_kinds import Failure, Kind
from wallaroo.engine.plan import Plan
from wallaroo.engine.spark.cluster import DriverAddress, free_slots_of, slots_of, tasks_of_a_stage, tasks_that_fit
from wallaroo.engine.spark.error_messages import cannot_go_on, failure_of_query, jvm_exit_reason
from wallaroo.engine.spark.query import ON_A_CLUSTER, ON_ONE_MACHINE, REAL_TIME
from wallaroo.engine.spark.session import SparkOptions, spark_session
from wallaroo.engine.state_manifest import BucketName
from wallaroo.engine.transport.plan_file import PlanRef, bundle_modules
from wallaroo.notices import Notice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Answer = TypeVar("Answer")

_MAX_DEFAULT_TASKS = 8
_END_SECONDS = 2.0
"""How long to wait for the closed connection of the worker that failed: it should close before Spark notices."""


class QueryEnvironment(NamedTuple):
    """What the tasks of the query connect to and depend on."""

    home: Home
    folder: Path
    """Of this run."""
    java: str
    token: str
    egress: Egress
    collector: Collector
    deaths: WorkerDeaths
    blocks: str
    """Where blocks are handed out."""
    messages: str
    """Where messages are fetched from; if empty, they are read from the logs of this machine."""
    notes: Path | None
    driver_address: DriverAddress | None
    """Where the workers of a cluster connect to this machine; None if all workers are on it."""


class QueryLifecycle:
    """Spark's session and query, both of which are restarted when they are lost."""

    _session: SparkSession
    _query: StreamingQuery

    def __init__(
        self, plan: Plan, spark: SparkOptions, workers: int | None, around: QueryEnvironment, warn: Notice
    ) -> None:
        self._plan = plan
        self._spark = spark
        self._asked = workers
        self._around = around
        self._warn = warn
        self._stages = len(plan.layout.levels) + 1
        self._has_run = False
        """Whether there was a query before, which has found its states loadable."""
        self.learned = False
        """Whether the last death of a worker has given new information."""
        self._opened = contextlib.ExitStack()
        self._java = around.java
        self._ref = PlanRef.write(plan, around.home.for_spark / "plan.json")
        self._tasks = self._max_tasks = workers or cores(spark.master)
        if not spark.local:
            self._ref = self._ref.with_parcel()

    def start(self) -> None:
        """Start Spark, and the first attempt of the query."""
        self._start_session()
        if not self._spark.local:
            context = self._session.sparkContext
            self._tasks = tasks_of_a_stage(lambda: slots_of(context), self._stages, self._asked)
            self._max_tasks = self._tasks
        self._start_query()

    def start_again(self) -> None:
        """Restart the query from the last commit, and Spark, too, if it is gone."""
        if self.is_active() is None:
            self._opened.close()
            self._start_session()
        else:
            self._query.stop()
        self._start_query()

    def close(self) -> None:
        """Stop the query, and Spark."""
        with contextlib.suppress(Exception):
            self._query.stop()
        self._opened.close()

    def is_active(self) -> bool | None:
        """Return whether the query is running; None if Spark's JVM is gone."""
        return _answer_to(lambda: bool(self._query.isActive))

    def failure(self) -> Failure:
        """Return why the query has ended; if a worker died, record what it was doing."""
        self.learned = False
        reported = _answer_to(lambda: failure_of_query(self._query))
        if reported is None:
            return Failure(Kind.LOST, jvm_exit_reason(self._around.home))
        if reported.kind != Kind.LOST:
            return reported  # The JVM itself has failed, and has killed the workers.
        end = self._around.collector.first_end(_END_SECONDS)
        if end is None:
            return reported
        if end.failure is not None:
            return end.failure
        if end.death is not None:
            self.learned = self._around.deaths.take(end.death)
        return reported

    def _start_session(self) -> None:
        spark, around = self._spark, self._around
        if spark.local:
            # All tasks of all stages run at the same time. The second number is the number of attempts per task.
            spark = replace(spark, master=f"local[{self._tasks * self._stages},1]")
        spark = replace(spark, conf=REAL_TIME | (ON_ONE_MACHINE if spark.local else ON_A_CLUSTER) | spark.conf)
        name = self._plan.application.name
        self._session = self._opened.enter_context(
            spark_session(name, around.home, spark, self._java, around.folder, self._warn)
        )
        if not spark.local:
            assert self._plan.program is not None
            bundle = bundle_modules(around.home.path / "modules.zip", self._plan.program.module, self._warn)
            if bundle:
                self._session.sparkContext.addPyFile(str(bundle))

    def _start_query(self) -> None:
        from wallaroo.engine.spark.query import start_query  # noqa: PLC0415 - imports Spark
        from wallaroo.engine.stages.tasks import TaskSettings  # noqa: PLC0415

        around = self._around
        attempt = secrets.token_hex(8)
        address = around.collector.address
        if around.driver_address:
            address = str(Address(around.driver_address.advertised, parse_address(address).port))
            self._fit_to_cluster()
        start = around.egress.begin(attempt, self._expected())
        self._session.conf.set("spark.sql.shuffle.partitions", self._tasks)
        settings = TaskSettings(
            plan=self._ref,
            address=address,
            token=around.token,
            attempt=attempt,
            partitions=self._tasks,
            readers=self._tasks,
            levels=self._stages - 1,
            states=str(around.home.states),
            messages=around.messages,
            tries_states=not self._has_run,
            notes=str(around.notes or ""),
        )
        # Spark's own checkpoint is useless after this attempt: the commit has the position to start from.
        notes = around.folder / "query" / attempt
        self._has_run = True
        self._query = start_query(self._session, settings, around.blocks, start, notes)

    def _fit_to_cluster(self) -> None:
        """Wait until the tasks of the last attempt have ended; if executors stay lost, continue with fewer tasks."""
        context = self._session.sparkContext
        tasks = tasks_that_fit(lambda: free_slots_of(context), self._stages, self._max_tasks)
        if not tasks:
            raise cannot_go_on("the cluster has no room for it any more", self._around.home)
        if tasks < self._tasks:
            self._warn(f"Each stage continues with {tasks} of {self._max_tasks} workers: the cluster has lost cores.")
        self._tasks = tasks

    def _expected(self) -> Expected:
        """Return what the tasks of the next attempt will send."""
        plan, levels, tasks = self._plan, self._stages - 1, self._tasks

        def owner(name: BucketName) -> tuple[int, int] | None:
            # A state that is no longer used is retained, and has no owner.
            state = plan.layout.states.get(name[0])
            return None if state is None else (state.level, plan.placement(name[0], tasks)(name[1]))

        return Expected(tasks if levels else 1, tasks * max(levels, 1), owner)


def _answer_to(question: Callable[[], Answer]) -> Answer | None:
    """Return Spark's answer, None if its JVM is gone."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - comes with Spark, which only a run needs

    try:
        return question()
    except (Py4JError, OSError):
        return None


def cores(master: str) -> int:
    """Return the default number of tasks of a stage on one machine.

    >>> cores("local[3]")
    3
    """
    named = re.fullmatch(r"local\[(\d+)\]", master)
    return int(named[1]) if named else min(os.cpu_count() or 1, _MAX_DEFAULT_TASKS)
