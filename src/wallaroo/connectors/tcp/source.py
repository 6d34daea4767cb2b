"""The TCP source: listens, frames what senders send, and applies backpressure while the log is full."""

from __future__ import annotations

import asyncio
import select
from collections import Counter
from typing import TYPE_CHECKING, Any

from wallaroo.connectors.tcp.sockets import open_sockets
from wallaroo.connectors.tcp.source_connection import Connection
from wallaroo.errors import WallarooError
from wallaroo.ingress.framing import Framer, FramingError, LineFramer, framer_for
from wallaroo.ingress.limits import ACCEPTED_AT_ONCE
from wallaroo.introspection import instance_of
from wallaroo.notices import Notice, Throttle
from wallaroo.sizes import plural

if TYPE_CHECKING:
    from wallaroo.connectors.base import IntakeContext, SourceLog


LISTEN_BACKLOG = 1024
REST_BYTES = 64 << 20
"""Limit on what is still read when stopping; senders that never stop would otherwise block shutdown."""

STUCK_SECONDS = 60.0
"""How long a message may stall before it is reported; sender and decoder may frame differently."""
_STUCK_REPORTED_AT_ONCE = 3

# Event-loop iterations allowed for picking up connections that the kernel has accepted.
_LAST_TURNS = 100
_TURNS_TO_CONNECT = 5


class TcpSource:
    """Appends what its connections receive to the log of its source."""

    def __init__(self, address: tuple[str, int], decoder: Any, log: SourceLog, context: IntakeContext) -> None:
        self._address = address
        self._decoder = instance_of(decoder)
        self._log = log
        self._limits = context.limits
        self._unfinished = context.unfinished
        self._notice = context.notice
        self._closings = ClosedConnections(log.name, context.notice)
        self._look_for_stuck: asyncio.TimerHandle | None = None
        self._servers: list[asyncio.Server] = []
        self._open: set[Connection] = set()
        self._closed = False
        try:
            # A decoder that cannot work fails now rather than with the first connection.
            self._framer()
        except FramingError as error:
            raise WallarooError(f"Pipeline {log.name!r} cannot frame its messages: {error}.") from error

    async def start(self) -> tuple[str, int]:
        """Listen; return the address."""
        sockets = open_sockets(self._log.name, *self._address)
        address: tuple[str, int] = sockets[0].getsockname()[:2]
        loop = asyncio.get_running_loop()
        for sock in sockets:
            self._servers.append(await loop.create_server(self._accepted, sock=sock, backlog=ACCEPTED_AT_ONCE))
            # asyncio uses one number for both; the queue length is set separately.
            sock.listen(LISTEN_BACKLOG)
        self._report_stuck()
        return address

    def _accepted(self) -> Connection:
        return Connection(self, self._framer(), self._unfinished)

    def _framer(self) -> Framer | LineFramer:
        return framer_for(self._decoder, self._limits.max_message_size)

    def _report_stuck(self) -> None:
        """Report connections that are stuck inside a message, each once, and check again later."""
        stuck = [(each.peer, why) for each in self._open if (why := each.stuck_for(STUCK_SECONDS)) is not None]
        for peer, why in stuck[:_STUCK_REPORTED_AT_ONCE]:
            self._notice(
                f"The connection from {peer} to {self._log.name!r} is inside a message, and nothing has been received "
                f"for {STUCK_SECONDS:.0f} s: {why}"
            )
        if more := len(stuck[_STUCK_REPORTED_AT_ONCE:]):
            connections = "connection is" if more == 1 else "connections are"
            self._notice(f"And {more:,} more {connections} also stuck inside a message to {self._log.name!r}.")
        self._look_for_stuck = asyncio.get_running_loop().call_later(STUCK_SECONDS / 4, self._report_stuck)

    @property
    def connections(self) -> int:
        """Return how many senders are connected."""
        return len(self._open)

    @property
    def has_written_all(self) -> bool:
        """Return whether everything that was received is in the log."""
        return self._log.has_written_all

    def opened(self, connection: Connection) -> None:
        """Register a new connection, or close it if there are too many, or if the source is closed."""
        if self._closed:
            connection.close()
            return
        if len(self._open) >= self._limits.max_connections:
            connection.give_up(
                "one too many",
                f": {plural(len(self._open), 'connection')} open already, and more are not accepted "
                f"({self._limits.why_no_more_connections}).",
            )
            return
        self._open.add(connection)
        if self._log.held_back:
            connection.hold(self)

    def received(self, payloads: list[bytes]) -> None:
        """Append messages to the log."""
        self._log.received(payloads)

    def closed(self, connection: Connection) -> None:
        """Remove a closed connection, and report if it was closed inside a message."""
        self._open.discard(connection)
        if connection.pending:
            self._closings.add(
                connection.peer,
                "inside a message",
                f" inside a message: {plural(connection.pending, 'byte')} of an unfinished message were dropped.",
            )

    def refused(self, connection: Connection, kind: str, reason: str) -> None:
        """Report why a connection is closed."""
        self._closings.add(connection.peer, kind, reason)

    def hold(self) -> None:
        """Stop reading, so that TCP makes the senders wait."""
        for connection in self._open:
            connection.hold(self)

    def release(self) -> None:
        """Resume reading."""
        for connection in self._open:
            connection.release(self)

    async def drain(self) -> None:
        """Stop listening, read what has already arrived, and close the connections."""
        for _ in range(_LAST_TURNS):
            if not self._connections_waiting():
                break
            await asyncio.sleep(0)
        for server in self._servers:
            server.close()
        # The event loop needs a few iterations from an accepted socket to a connection.
        for _ in range(_TURNS_TO_CONNECT):
            await asyncio.sleep(0)
        self._read_rest()
        for _ in range(_LAST_TURNS):
            if not self._open:
                break
            await asyncio.sleep(0)

    def close(self) -> None:
        """Stop listening, and close the connections."""
        self._closed = True
        if self._look_for_stuck is not None:
            self._look_for_stuck.cancel()
        for server in self._servers:
            server.close()
        for connection in self._open:
            connection.close()
        self._closings.close()

    def _read_rest(self) -> None:
        """Read what has already arrived on the connections, round robin, and close them."""
        left = REST_BYTES
        reading = list(self._open)
        while reading and left > 0 and self._log.has_written_all:
            connection = reading.pop(0)
            if taken := connection.read_rest(left):
                left -= taken
                reading.append(connection)
        for connection in list(self._open):
            connection.close()

    def _connections_waiting(self) -> bool:
        poll = select.poll()
        for server in self._servers:
            for sock in server.sockets:
                poll.register(sock.fileno(), select.POLLIN)
        return bool(poll.poll(0))


REPORTED_IN_FULL = 5
SUMMARY_SECONDS = 10.0


class ClosedConnections:
    """Reports the first few in full, and the rest in periodic summaries.

    After a period without closed connections, the first few are reported in full again.
    """

    def __init__(self, source: str, notice: Notice) -> None:
        self._source = source
        self._notice = notice
        self._closed = Throttle(SUMMARY_SECONDS)
        self._kinds: Counter[str] = Counter()
        self._last = ""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, peer: str, kind: str, reason: str) -> None:
        """Report that the connection from `peer` was closed; `kind` is a short form of the reason, for the summary."""
        self._closed.add()
        if self._closed.total <= REPORTED_IN_FULL:
            self._closed.take()
            self._notice(f"The connection from {peer} to {self._source!r} was closed{reason}")
        else:
            self._kinds[kind] += 1
            self._last = f"{peer}{reason}"
        if self._timer is None:
            self._start_timer()

    def close(self) -> None:
        """Report what has not been reported yet."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._sum_up()

    def _start_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(SUMMARY_SECONDS, self._time_is_up)

    def _time_is_up(self) -> None:
        self._timer = None
        if self._closed.unreported:
            self._sum_up()
            self._start_timer()
        else:
            self._closed = Throttle(SUMMARY_SECONDS)

    def _sum_up(self) -> None:
        if not self._closed.unreported:
            return
        number = self._closed.take()
        kinds = ", ".join(f"{each:,} {kind}" for kind, each in self._kinds.most_common())
        self._notice(
            f"And {plural(number, 'more connection')} to {self._source!r} {'was' if number == 1 else 'were'} closed: "
            f"{kinds}. The last one: {self._last}"
        )
        self._kinds.clear()
