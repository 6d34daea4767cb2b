"""A source: its log, its connections, and when to stop reading from them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from wallaroo.errors import WallarooError
from wallaroo.ingress.connection import Connection
from wallaroo.ingress.framing import Framer, FramingError
from wallaroo.ingress.log import LogWriter
from wallaroo.ingress.log_format import OFFSET_SIZE
from wallaroo.topology.model import instance_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from wallaroo.ingress.config import IngressConfig, SourceEndpoint

RETRY_SECONDS = 1.0
"""How often a log that could not be written is tried again."""

# A sender that never stops could keep us reading for ever.
_REST_BYTES = 64 << 20


class SourceStatus(TypedDict):
    """How a source is doing. The totals count from the start of the ingress process."""

    connections: int
    start: int
    end: int
    backlog_bytes: int
    total_messages: int
    total_bytes: int


class Source:
    """Appends what its connections receive to a log, and holds them back when it cannot keep up.

    There are two reasons to hold back: too much is not processed yet, or the disk does not take more. In the
    second case what was already read waits in memory: nothing that left the sender's socket is lost.
    """

    def __init__(
        self,
        endpoint: SourceEndpoint,
        config: IngressConfig,
        on_append: Callable[[], None],
        on_notice: Callable[[str], None],
    ) -> None:
        self.name = endpoint.name
        self._decoder = instance_of(endpoint.decoder)
        self._max_message_size = config.max_message_size
        self._max_backlog = config.max_backlog_bytes
        self._on_append = on_append
        self._notice = on_notice
        self._connections: set[Connection] = set()
        self._too_much = False
        self._unwritten: list[list[bytes]] = []
        self._retry: asyncio.TimerHandle | None = None
        self._total_messages = 0
        self._total_bytes = 0
        try:
            # A decoder that cannot work is found out now rather than with the first connection.
            Framer(self._decoder, self._max_message_size)
        except FramingError as error:
            raise WallarooError(f"Pipeline {self.name!r} cannot frame its messages: {error}.") from error
        self._log = LogWriter(Path(endpoint.log_directory), segment_bytes=config.segment_bytes)
        for text in self._log.dropped:
            self._notice(text)

    def new_connection(self) -> Connection:
        """Return the protocol for a connection that was accepted."""
        return Connection(self, Framer(self._decoder, self._max_message_size))

    @property
    def end(self) -> int:
        """Return the index after the last message in the log."""
        return self._log.end

    @property
    def backlog_bytes(self) -> int:
        """Return how much in the log is not processed yet."""
        return self._log.bytes_after(self._log.committed)

    @property
    def held_back(self) -> bool:
        """Return whether the log takes nothing more for now."""
        return self._too_much or bool(self._unwritten)

    def status(self) -> SourceStatus:
        """Return how the source is doing."""
        return SourceStatus(
            connections=len(self._connections),
            start=self._log.start,
            end=self._log.end,
            backlog_bytes=self.backlog_bytes,
            total_messages=self._total_messages,
            total_bytes=self._total_bytes,
        )

    def opened(self, connection: Connection) -> None:
        """Take note of a new connection."""
        self._connections.add(connection)
        if self.held_back and connection.transport is not None:
            connection.transport.pause_reading()

    def closed(self, connection: Connection) -> None:
        """Take note that a connection is closed, and tell if it was closed inside a message."""
        self._connections.discard(connection)
        if connection.pending:
            self._notice(
                f"The connection from {connection.peer} to {self.name!r} was closed inside a message: "
                f"{connection.pending} bytes of an unfinished message were dropped."
            )

    def refused(self, connection: Connection, reason: str) -> None:
        """Tell why a connection is closed."""
        self._notice(f"The connection from {connection.peer} to {self.name!r} was closed: {reason}.")

    def received(self, payloads: list[bytes]) -> None:
        """Append messages to the log."""
        if not payloads:
            return
        if self._unwritten:
            self._unwritten.append(payloads)
            return
        try:
            self._append(payloads)
        except OSError as error:
            self._unwritten.append(payloads)
            self._hold_back()
            self._retry = asyncio.get_running_loop().call_later(RETRY_SECONDS, self._try_again)
            self._notice(
                f"The log of {self.name!r} in {self._log.directory} cannot be written: {error.strerror}. "
                f"Nothing is read from its senders until it can; free some space or repair the disk."
            )
        else:
            self._check_backlog()

    def commit(self, index: int) -> None:
        """Take note that the messages before `index` are processed."""
        try:
            self._log.delete_before(index)
            self._check_backlog()
        except OSError as error:
            self._notice(f"Old messages of {self.name!r} could not be deleted: {error}.")

    def advance(self, index: int) -> None:
        """Make sure that no message gets an index below `index` any more."""
        end = self._log.end
        if self._log.advance_to(index):
            self._notice(
                f"The log of {self.name!r} ended at message {end}, but messages up to {index} were known: "
                f"the end of the log was lost, as after a power failure. It goes on with message {index}."
            )

    def read_rest(self) -> None:
        """Read what has already arrived on the connections, and close them."""
        for connection in list(self._connections):
            if not self._unwritten:
                connection.read_rest(_REST_BYTES)
            connection.close()

    def sync(self) -> None:
        """Force the log to the disk."""
        try:
            self._write_waiting()
            self._log.sync()
        except OSError as error:
            self._notice(f"The log of {self.name!r} could not be written to the disk: {error}.")

    def close(self) -> None:
        """Write what still waits, if that is possible, and close the log."""
        if self._retry is not None:
            self._retry.cancel()
        try:
            self._write_waiting()
            self._log.close()
        except OSError as error:
            lost = sum(map(len, self._unwritten))
            self._notice(
                f"The log of {self.name!r} could not be written at the end: {error}. "
                f"{lost} messages that were received are lost."
            )

    @property
    def is_empty(self) -> bool:
        """Return whether there is no connection."""
        return not self._connections

    def _append(self, payloads: list[bytes]) -> None:
        before = self._log.data_bytes
        self._log.append(payloads)
        self._total_messages += len(payloads)
        self._total_bytes += self._log.data_bytes - before
        self._on_append()

    def _check_backlog(self) -> None:
        """Hold the senders back if too much is not processed yet, let them go on when it is much less."""
        committed = self._log.committed
        try:
            unprocessed = self._log.bytes_after(committed)
        except OSError:
            # No file can be opened just now. Messages that are safely in the log must not suffer from that.
            return
        # Empty messages take up room as well.
        backlog = unprocessed + OFFSET_SIZE * (self._log.end - committed)
        if not self._too_much and backlog > self._max_backlog:
            self._too_much = True
            self._hold_back()
            self._notice(
                f"{self.name!r} has more than {self._max_backlog} bytes of messages that are not processed "
                f"yet: its senders have to wait."
            )
        elif self._too_much and backlog <= self._max_backlog * 3 // 4:
            self._too_much = False
            self._notice(f"{self.name!r} has caught up: its senders are read again.")
            self._go_on()

    def _write_waiting(self) -> None:
        while self._unwritten:
            self._append(self._unwritten[0])
            del self._unwritten[0]

    def _try_again(self) -> None:
        try:
            self._write_waiting()
        except OSError:
            self._retry = asyncio.get_running_loop().call_later(RETRY_SECONDS, self._try_again)
            return
        self._retry = None
        self._check_backlog()
        self._notice(f"The log of {self.name!r} can be written again.")
        self._go_on()

    def _hold_back(self) -> None:
        for connection in self._connections:
            if connection.transport is not None:
                connection.transport.pause_reading()

    def _go_on(self) -> None:
        if self.held_back:
            return
        for connection in self._connections:
            if connection.transport is not None:
                connection.transport.resume_reading()
