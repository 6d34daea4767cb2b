"""The end of a batch: its outputs, in order, to the sinks, each batch once."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from wallaroo.api.configs import TCPSinkConfig
from wallaroo.connectors.base import Notice, SinkConnection, StoppedError
from wallaroo.connectors.tcp import TcpSink
from wallaroo.engine.chunks import DEAD_LETTERS, PRINTED, Chunk, from_table, load_records
from wallaroo.engine.dead_letters import DeadLetters
from wallaroo.engine.home import Home
from wallaroo.engine.ledger import Ledger
from wallaroo.engine.plan import Plan, SinkRoute

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DEAD_LETTERS_IN_LEDGER = "dead letters"


class Egress:
    """Takes the output of batch after batch in the driver, which owns the connections."""

    def __init__(self, plan: Plan, home: Home, stopping: threading.Event, notice: Notice) -> None:
        self._ledger = Ledger(home.ledger)
        self._dead_letters = DeadLetters(home.dead_letters, notice)
        self._notice = notice
        self._connections: dict[str, SinkConnection] = {}
        self._routes: dict[int, str] = {}
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
        sink = TcpSink(*route.sink.address, stopping=stopping, notice=self._notice)
        # Sinks with the same address share a connection: a receiver such as `nc -l` takes only one.
        return self._connections.setdefault(sink.name, sink)

    @property
    def errors(self) -> int:
        """Return how many messages became dead letters in this run."""
        return self._dead_letters.count

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Run a batch and deliver what it puts out (Spark's `foreachBatch`)."""
        try:
            self.deliver(batch, from_table(frame.toArrow()))
        except StoppedError as error:
            self.failure = error
            raise
        self.batches += 1

    def deliver(self, batch: int, chunks: Iterable[Chunk]) -> None:
        """Deliver the chunks of a batch, which are in order for each route."""
        bodies: defaultdict[str, list[bytes]] = defaultdict(list)
        for chunk in chunks:
            if chunk.route >= 0:
                bodies[self._routes[chunk.route]].append(chunk.body)
                self.messages_out += chunk.number
            elif chunk.route == PRINTED:
                self._notice(chunk.body.decode(errors="replace").rstrip("\n"))
            elif chunk.route == DEAD_LETTERS and not self._ledger.has(_DEAD_LETTERS_IN_LEDGER, batch):
                self._dead_letters.add(load_records(chunk.body))
        if self._dead_letters.count:
            self._ledger.record(_DEAD_LETTERS_IN_LEDGER, batch)
        for name, of_sink in bodies.items():
            if not self._ledger.has(name, batch):
                self._connections[name].deliver(of_sink)
                self._ledger.record(name, batch)

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
