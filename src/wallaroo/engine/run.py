"""A whole run of an application: it is started, kept going, and stopped in good order."""

from __future__ import annotations

import contextlib
import json
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from wallaroo.connectors.base import StoppedError
from wallaroo.engine.directory.home import Home, default_home
from wallaroo.engine.directory.run_folder import temporary_folder
from wallaroo.engine.directory.safe_paths import refuse_if_not_plain
from wallaroo.engine.failure import Failure
from wallaroo.engine.metrics import Snapshot
from wallaroo.engine.options import RunOptions
from wallaroo.engine.restart_policy import RestartPolicy
from wallaroo.engine.spark.error_messages import cannot_go_on, failure_of_start, translate_spark_errors
from wallaroo.engine.spark.preflight import check_before_start
from wallaroo.engine.startup import Parts, Startup
from wallaroo.files import write_atomically
from wallaroo.ingress.client import IngressAwayError
from wallaroo.notices import Notice, never_failing
from wallaroo.program import Program
from wallaroo.sizes import plural
from wallaroo.topology.model import Application

READY = "Application has successfully initialized."
_LOOK_SECONDS = 0.01
_ASK_AGAIN_SECONDS = 2.0
_STATUS_SECONDS = 1.0
"""How long the ingress may take to say how its sources are doing: a run that ends does not wait for it."""


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
        self, application: Application, program: Program, options: RunOptions, say: Notice, warn: Notice
    ) -> None:
        self.application = application
        self.program = program
        self.options = options
        self.home = Home(options.home or default_home(application.name))
        self._say = never_failing(say)
        self._warn = never_failing(warn)

    def run(self, stop: Stop) -> None:
        """Start, say so, and go on until asked to stop; raises a WallarooError if the application cannot go on."""
        check_before_start(self.application.pipelines, self.options.spark)
        if not self.options.spark.local:
            refuse_if_not_plain(self.home.path)
        with contextlib.ExitStack() as cleanup, translate_spark_errors(self.home):
            comeback = RestartPolicy(self.home, self._folders_written(), stop.requested, self._warn)
            stopping = threading.Event()
            starting = Startup(
                self.application, self.program, self.options, self.home, cleanup, stopping, self._say, self._warn
            )
            parts = starting.open()
            running = Running(self.home, parts, comeback, self._warn)
            cleanup.callback(running.write_counts)
            running.warm_up()
            stop.ready = True
            self._say(READY)
            while not stop.requested.wait(0.25) and running.keeps_going():
                pass
            if stop.requested.is_set():
                self._warn("Stopping after what is under way; at a second signal, at once.")
                stopping.set()
                running.finish(stop)
            running.raise_failure()
        counts = parts.egress.metrics
        sent, failed = plural(counts.messages_out, "message"), plural(counts.errors, "dead letter")
        self._say(f"Stopped: {sent} sent, {failed} in this run.")

    def _folders_written(self) -> list[Path]:
        """Return the folders, besides the home, on whose disks Spark depends."""
        chosen = self.options.spark.conf.get("spark.local.dir", "")
        return [Path(folder) for folder in (tempfile.gettempdir(), temporary_folder(), *chosen.split(",")) if folder]


class Running:
    """An application that runs: looked after until it is stopped."""

    def __init__(self, home: Home, parts: Parts, comeback: RestartPolicy, warn: Notice) -> None:
        self._home = home
        self._commits, self._ingress, self._egress, self._deaths, self._processing = parts
        self._comeback = comeback
        self._warn = warn
        self._left = ""
        """Why what was under way is left to the next run, where it is."""

    def warm_up(self) -> None:
        """Wait until blocks have gone all the way, with a commit between them.

        Then classes are loaded and workers started, and the first change of epochs takes no longer than others.
        """
        counts = self._egress.metrics
        self._ingress.tick()
        self._wait_until(lambda: counts.blocks > 0)
        while not counts.commits:
            # Asked for again, where the query has been started once more meanwhile.
            self._ingress.end_epoch()
            deadline = time.monotonic() + _ASK_AGAIN_SECONDS
            self._wait_until(lambda: counts.commits > 0 or time.monotonic() > deadline)  # noqa: B023 - called at once
        blocks = counts.blocks
        self._ingress.tick()
        self._wait_until(lambda: counts.blocks > blocks)

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            if not self.keeps_going():
                raise cannot_go_on("its query has ended", self._home)
            time.sleep(_LOOK_SECONDS)

    def keeps_going(self) -> bool:
        """Tell whether the query runs; start it again from the last commit where it has ended."""
        if self._egress.failure is not None:
            if isinstance(self._egress.failure, StoppedError):
                return False
            raise self._egress.failure
        self._comeback.progress(self._egress.metrics.blocks)
        if self._processing.is_active():
            if (held_up := self._egress.held_up) is not None:
                self._comeback.hold_up(str(held_up))
            self._egress.sum_up()
            return True
        return self._comes_back(self._processing.failure())

    def _comes_back(self, failure: Failure) -> bool:
        """Start the query again from the last commit, when it may; return false where the run is to stop instead."""
        learned = self._processing.learned
        while self._comeback.wait(failure, self._egress.metrics.blocks, self._deaths.fatal_calls(), learned=learned):
            learned = False
            try:
                self._egress.metrics.restarted()
                self._processing.start_again()
                # A block without messages shows that all is well again, also where no message comes.
                self._ingress.tick()
            except Exception as error:  # noqa: BLE001 - Spark's own, of many classes; it is looked at above
                failure = failure_of_start(error)
            else:
                return True
        self._left = failure.text
        return False

    def finish(self, stop: Stop) -> None:
        """Take nothing new, and commit what is under way, unless something is in the way of that."""
        try:
            self._commit_all(stop)
        except IngressAwayError as error:
            self._left = str(error)

    def _commit_all(self, stop: Stop) -> None:
        self._ingress.drain()
        end, ask_at = None, 0.0
        while (end is None or self._commits.block < end) and not stop.at_once.is_set():
            if end is None or time.monotonic() > ask_at:
                # Nobody takes blocks for a moment while the query is started again. And those who were told may have
                # been the tasks of a life that is over: then the next one has to be.
                told = self._ingress.end_epoch()
                end = told if end is None else end
                ask_at = time.monotonic() + _ASK_AGAIN_SECONDS
            if self._egress.held_up is not None:
                self._left = str(self._egress.held_up)
            elif not self._processing.is_active():
                self._left = "its query has ended"
            if self._left or self._egress.failure is not None:
                break
            time.sleep(_LOOK_SECONDS)

    def snapshot(self) -> Snapshot:
        """Return all that is counted, by whichever part; what the ingress knows only where it answers soon."""
        try:
            sources = self._ingress.status(within=_STATUS_SECONDS)
        except IngressAwayError:
            sources = {}
        return self._egress.metrics.snapshot(sources, self._commits.state_sizes(), self._commits.state_bytes())

    def write_counts(self) -> None:
        """Leave in the directory what has been counted; where the disk does not take it, it is not missed."""
        with contextlib.suppress(OSError):
            write_atomically(self._home.counts, json.dumps(self.snapshot(), indent=2) + "\n")

    def raise_failure(self) -> None:
        """Raise what has ended the run, or tell what it leaves behind."""
        if self._egress.failure is not None and not isinstance(self._egress.failure, StoppedError):
            raise self._egress.failure
        if self._left:
            self._warn(f"What was under way is left to the next run: {self._left}")
