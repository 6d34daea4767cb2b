"""The end of a batch: its outputs, in order, to the sinks, each batch once."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

from wallaroo.api.configs import TCPSinkConfig
from wallaroo.connectors.base import Notice, SinkConnection
from wallaroo.connectors.batch import Batch, Body
from wallaroo.connectors.tcp import TcpSink
from wallaroo.connectors.tcp_once import ConfirmedTcpSink
from wallaroo.engine.delivery.dead_letters import DeadLetters
from wallaroo.engine.delivery.error_policy import ErrorPolicy
from wallaroo.engine.delivery.ledger import Ledger, Part
from wallaroo.engine.delivery.on_error import OnError
from wallaroo.engine.directory.home import Home
from wallaroo.engine.plan import Plan, SinkRoute
from wallaroo.engine.transport.notes import Deaths, blame


class Egress:
    """Takes the output of batch after batch in the driver, which owns the connections.

    With `effectively_once`, batches are sent in frames with their ids, and receivers have to confirm them.
    """

    def __init__(  # noqa: PLR0913 - what a run decides
        self,
        plan: Plan,
        home: Home,
        stopping: threading.Event,
        notice: Notice,
        *,
        effectively_once: bool = False,
        on_error: OnError | None = None,
    ) -> None:
        self._ledger = Ledger(home.ledger)
        self._policy = ErrorPolicy(on_error or OnError())
        self._dead_letters = DeadLetters(home.dead_letters, notice)
        self._notes = Path(plan.notes) if plan.notes else None
        self._notice = notice
        self._effectively_once = effectively_once
        self._connections: dict[str, SinkConnection] = {}
        self._routes: dict[int, str] = {}
        self._sources = plan.sources
        for route in plan.routes:
            if isinstance(route, SinkRoute):
                connection = self._connect(route, stopping)
                self._routes[route.number] = connection.name
        self.batches = 0
        self.messages_out = 0
        self.failure: BaseException | None = None
        """What went wrong in a batch, for the run's own last word; Spark only keeps its text."""

    def _connect(self, route: SinkRoute, stopping: threading.Event) -> SinkConnection:
        assert isinstance(route.sink, TCPSinkConfig)
        kind = partial(ConfirmedTcpSink, application=self._ledger.id) if self._effectively_once else TcpSink
        sink = kind(*route.sink.address, stopping=stopping, notice=self._notice)
        # Sinks with the same address share a connection: a receiver such as `nc -l` takes only one.
        return self._connections.setdefault(sink.name, sink)

    @property
    def errors(self) -> int:
        """Return how many messages became dead letters in this run."""
        return self._dead_letters.count

    def fatal_calls(self, failure: str) -> dict[str, str]:
        """Return which calls of user code have been found, in the batch that has failed, to be a worker's death.

        Each comes with its step.

        Raises:
            ErrorPolicyError: There are some, and the first message that fails is to be the end.
        """
        if self._notes is None:
            return {}
        blame(self._notes, failure)
        steps = Deaths(self._notes).steps()
        for step in steps.values():
            self._policy.judge_fatal(step)
        return steps

    def sum_up(self) -> None:
        """Tell, when it is time, how often errors have come back."""
        self._dead_letters.sum_up()

    def _batch(self, sink: str, number: int, bodies: list[Body]) -> Batch:
        """Return a batch for a sink, which goes on where a run that was killed had got to."""

        def note(size: int, checksum: int) -> None:
            try:
                self._ledger.record_part(sink, Part(number, size, checksum))
            except OSError:
                # On a full disk a note may be missing, which means more to send after a crash; none may be too much.
                if not size:
                    raise

        batch = Batch(number, bodies, note)
        if not self._effectively_once:
            _, size, checksum = self._ledger.part(sink, number)
            batch.go_on(size, checksum)
        return batch

    def connect(self) -> None:
        """Look for the receivers in the background, so that one that is missing is missed at the start."""
        for connection in self._connections.values():
            threading.Thread(target=connection.connect, daemon=True).start()

    def close(self) -> None:
        """Close the connections, after everything has been sent."""
        for connection in self._connections.values():
            connection.close()
        self._dead_letters.close()
        self._ledger.close()
