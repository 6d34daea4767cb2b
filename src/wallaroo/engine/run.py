"""A whole run of an application: start, supervision, and clean stop."""

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
from wallaroo.engine.directory.quote_free_paths import require_safe_path
from wallaroo.engine.directory.run_folder import temporary_folder
from wallaroo.engine.failure_kinds import Failure, Kind
from wallaroo.engine.metrics import Snapshot
from wallaroo.engine.restart_policy import RestartPolicy
from wallaroo.engine.spark.error_messages import cannot_go_on, failure_of_start, translate_spark_errors
from wallaroo.engine.spark.preflight import check_before_start
from wallaroo.engine.startup import Parts, RunOptions, Startup
from wallaroo.files import write_atomically
from wallaroo.ingress.client import IngressUnavailableError
from wallaroo.notices import Notice, never_failing
from wallaroo.program import Program
from wallaroo.sizes import plural
from wallaroo.topology.model import Application

READY = "Application has successfully initialized."
_POLL_SECONDS = 0.01
_RETRY_SECONDS = 2.0
_STATUS_SECONDS = 1.0
"""The timeout for what the ingress is asked when something has ended: it may have ended as well."""


class Stop:
    """The signals by which a run is asked to stop."""

    def __init__(self) -> None:
        self.ready = False
        """Set once the run is up and has to be stopped cleanly; before that it can simply be interrupted."""
        self.requested = threading.Event()
        self.immediately = threading.Event()


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
        """Start, report it, and run until asked to stop; raises a WallarooError if the application cannot continue."""
        check_before_start(self.application.pipelines, self.options.spark)
        if not self.options.spark.local:
            require_safe_path(self.home.path)
        with contextlib.ExitStack() as cleanup, translate_spark_errors(self.home):
            restarts = RestartPolicy(self.home, self._folders_written(), stop.requested, self._warn)
            stopping = threading.Event()
            starting = Startup(
                self.application, self.program, self.options, self.home, cleanup, stopping, self._say, self._warn
            )
            parts = starting.open()
            running = Running(self.home, parts, restarts, self._warn)
            cleanup.callback(running.write_counts)
            running.warm_up()
            stop.ready = True
            self._say(READY)
            while not stop.requested.wait(0.25) and running.keep_running():
                pass
            if stop.requested.is_set():
                self._warn("Stopping after what is in progress; a second signal stops at once.")
                stopping.set()
                running.finish(stop)
            running.raise_failure()
        counts = parts.egress.metrics
        sent, failed = plural(counts.messages_out, "message"), plural(counts.errors, "dead letter")
        self._say(f"Stopped: {sent} sent, {failed} in this run.")

    def _folders_written(self) -> list[Path]:
        """Return the folders, besides the home, that Spark needs disk space for."""
        chosen = self.options.spark.conf.get("spark.local.dir", "")
        return [Path(folder) for folder in (tempfile.gettempdir(), temporary_folder(), *chosen.split(",")) if folder]


class Running:
    """A running application, supervised until it is stopped."""

    def __init__(self, home: Home, parts: Parts, restarts: RestartPolicy, warn: Notice) -> None:
        self._home = home
        self._commits, self._ingress, self._egress, self._deaths, self._processing = parts
        self._restarts = restarts
        self._warn = warn
        self._left = ""
        """Why blocks in flight are left to the next run, if they are."""

    def warm_up(self) -> None:
        """Wait until blocks have been delivered, with a commit between them.

        Then classes are loaded and workers are started, and the first change of epochs is as fast as later ones.
        """
        counts = self._egress.metrics
        self._ingress.tick()
        self._wait_until(lambda: counts.blocks > 0)
        while not counts.commits:
            # Requested again, in case the query has been restarted meanwhile.
            self._ingress.end_epoch()
            deadline = time.monotonic() + _RETRY_SECONDS
            self._wait_until(lambda: counts.commits > 0 or time.monotonic() > deadline)  # noqa: B023 - not deferred
        blocks = counts.blocks
        self._ingress.tick()
        self._wait_until(lambda: counts.blocks > blocks)

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            if not self.keep_running():
                raise cannot_go_on("its query has ended", self._home)
            time.sleep(_POLL_SECONDS)

    def keep_running(self) -> bool:
        """Return whether the query is running; restart it from the last commit if it has ended."""
        if self._egress.failure is not None:
            if isinstance(self._egress.failure, StoppedError):
                return False
            raise self._egress.failure
        self._restarts.progress(self._egress.metrics.blocks)
        if self._processing.is_active():
            if (held_up := self._egress.held_up) is not None:
                self._restarts.hold_up(str(held_up))
            self._egress.sum_up()
            return True
        return self._restart(self._cause_of(self._processing.failure()))

    def _cause_of(self, failure: Failure) -> Failure:
        """Return why the query has ended; if the ingress has closed its connections, it may know the reason."""
        if failure.kind in {Kind.INGRESS, Kind.LOST}:
            with contextlib.suppress(IngressUnavailableError):
                if (damage := self._ingress.damage(within=_STATUS_SECONDS)) is not None:
                    return Failure(Kind.FINAL, damage)
        return failure

    def _restart(self, failure: Failure) -> bool:
        """Restart the query from the last commit, when the policy allows; return false if the run has to stop."""
        learned = self._processing.learned
        while self._restarts.wait(failure, self._egress.metrics.blocks, self._deaths.fatal_calls(), learned=learned):
            learned = False
            try:
                self._egress.metrics.restarted()
                self._processing.start_again()
                # A block without messages shows that processing has resumed, even if no messages arrive.
                self._ingress.tick()
            except Exception as error:  # noqa: BLE001 - Spark's own, of many classes; it is looked at above
                failure = failure_of_start(error)
            else:
                return True
        self._left = failure.text
        return False

    def finish(self, stop: Stop) -> None:
        """Accept nothing new, and commit the blocks in flight, unless something prevents it."""
        try:
            self._commit_all(stop)
        except IngressUnavailableError as error:
            self._left = str(error)

    def _commit_all(self, stop: Stop) -> None:
        self._ingress.drain()
        end, ask_at = None, 0.0
        while (end is None or self._commits.block < end) and not stop.immediately.is_set():
            if end is None or time.monotonic() > ask_at:
                # While the query is being restarted, there are no readers. And the request may have gone to the tasks
                # of an attempt that has ended: then it has to be repeated for the next one.
                announced = self._ingress.end_epoch()
                end = announced if end is None else end
                ask_at = time.monotonic() + _RETRY_SECONDS
            if self._egress.held_up is not None:
                self._left = str(self._egress.held_up)
            elif not self._processing.is_active():
                self._left = "its query has ended"
            if self._left or self._egress.failure is not None:
                break
            time.sleep(_POLL_SECONDS)

    def snapshot(self) -> Snapshot:
        """Return the metrics of all parts; those of the ingress only if it answers in time."""
        try:
            sources = self._ingress.status(within=_STATUS_SECONDS)
        except IngressUnavailableError:
            sources = {}
        return self._egress.metrics.snapshot(sources, self._commits.state_sizes(), self._commits.state_bytes())

    def write_counts(self) -> None:
        """Write the metrics to the directory; errors of the disk are ignored, as nothing depends on them."""
        with contextlib.suppress(OSError):
            write_atomically(self._home.counts, json.dumps(self.snapshot(), indent=2) + "\n")

    def raise_failure(self) -> None:
        """Raise the error that has ended the run, or report what it leaves to the next run."""
        if self._egress.failure is not None and not isinstance(self._egress.failure, StoppedError):
            raise self._egress.failure
        if self._left:
            self._warn(f"What was in progress is left to the next run: {self._left}")
