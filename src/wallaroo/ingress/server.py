"""The ingress server: listens for each source, and tells the engine how far the logs reach."""

from __future__ import annotations

import asyncio
import select
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wallaroo.ingress.generator import Generator
from wallaroo.ingress.listen import open_sockets
from wallaroo.ingress.replays import ReplayQueue, ReplaySource
from wallaroo.ingress.sequence import SequenceWriter
from wallaroo.ingress.sequencer import BLOCK_BYTES, EPOCH_BYTES, Sequencer
from wallaroo.ingress.source import Source, SourceStatus
from wallaroo.ingress.telling import Spell
from wallaroo.ingress.unfinished import Unfinished

if TYPE_CHECKING:
    from collections.abc import Callable

    from wallaroo.ingress.config import IngressConfig, SourceEndpoint

LISTEN_BACKLOG = 1024
ACCEPTED_AT_ONCE = 64
"""How many connections are accepted before those that are open get their turn again."""

# How many turns of the event loop connections that the kernel has accepted already get to be picked up.
_LAST_TURNS = 100
_TURNS_TO_CONNECT = 5


class IngressServer:
    """All sources of an application.

    Make it inside a running event loop; `start` makes it accept connections.
    """

    def __init__(self, config: IngressConfig, on_notice: Callable[[str], None]) -> None:
        self._config = config
        self.sources: dict[str, Source] = {}
        self._servers: list[asyncio.Server] = []
        self._generators: list[asyncio.Task[None]] = []
        self._syncing: list[asyncio.Task[None]] = []
        self._notice = on_notice
        self._drained: asyncio.Task[None] | None = None
        self._unfinished = Unfinished(config.limits.max_unfinished, on_notice)
        self._cannot_accept = Spell(on_notice)
        self._numbers: dict[str, int] = {}
        with ExitStack() as opened:
            for endpoint in config.sources:
                source = Source(endpoint, config, self._unfinished, self._appended, on_notice)
                opened.callback(source.close)
                self.sources[endpoint.name] = source
            self.sequencer = self._make_sequencer()
            opened.pop_all()

    def _make_sequencer(self) -> Sequencer:
        names = list(self.sources)
        sequence = SequenceWriter(Path(self._config.sequence), names, self._config.known_block)
        for text in sequence.dropped:
            self._notice(text)
        sequencer = Sequencer(
            sequence,
            epoch_seconds=self._config.epoch_seconds,
            epoch_bytes=min(EPOCH_BYTES, self._config.limits.max_log // 4),
            on_cut_failed=self._cut_failed,
            on_delivered=lambda done: self.sources[sequence.names[done.source]].delivered(done.end),
        )
        known = {endpoint.name: endpoint.known for endpoint in self._config.sources}
        for number, name in enumerate(sequence.names):
            if name in self.sources:
                source = self.sources[name]
                low = max(sequence.ends.get(number, source.start), known[name])
                source.advance(low)
                for first, end in source.pieces_from(low, BLOCK_BYTES):
                    sequencer.appended(number, first, end, BLOCK_BYTES)
        self._numbers = {name: number for number, name in enumerate(sequence.names)}
        return sequencer

    def _cut_failed(self, error: OSError) -> None:
        self._notice(f"The sequence of blocks cannot be written: {error.strerror}. It is tried again.")

    def _appended(self, source: str, first: int, end: int, size: int) -> None:
        self.sequencer.appended(self._numbers[source], first, end, size)

    async def start(self) -> dict[str, tuple[str, int]]:
        """Listen for every source, and return the addresses."""
        addresses = {}
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._on_trouble)
        self._syncing = [loop.create_task(source.keep_on_disk()) for source in self.sources.values()]
        self._syncing.append(loop.create_task(self.sequencer.keep_on_disk()))
        for endpoint in self._config.sources:
            if endpoint.generator is not None or endpoint.queue:
                self._generators.append(loop.create_task(self._generator_of(endpoint).run()))
                continue
            sockets = open_sockets(endpoint)
            addresses[endpoint.name] = sockets[0].getsockname()[:2]
            factory = self.sources[endpoint.name].new_connection
            for sock in sockets:
                self._servers.append(await loop.create_server(factory, sock=sock, backlog=ACCEPTED_AT_ONCE))
                # How many may queue up is another matter; asyncio has one number for both.
                sock.listen(LISTEN_BACKLOG)
        return addresses

    def _on_trouble(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Say plainly that no connection can be accepted for lack of something; asyncio tries again in a second."""
        error = context.get("exception")
        if isinstance(error, OSError) and "accept" in context["message"]:
            self._cannot_accept.begin(
                f"New connections cannot be accepted for now: {error.strerror}. They have to wait; those that are open "
                f"go on."
            )
            self._cannot_accept.end("New connections can be accepted again.")
        else:
            loop.default_exception_handler(context)

    def _generator_of(self, endpoint: SourceEndpoint) -> Generator | ReplaySource:
        source = self.sources[endpoint.name]
        if endpoint.queue:
            queue = ReplayQueue(Path(endpoint.queue), Path(endpoint.log_directory))
            return ReplaySource(queue, source, self._notice)
        return Generator(endpoint.generator, source, Path(endpoint.log_directory), self._notice)

    def ends(self) -> dict[str, int]:
        """Return for each source the index after its last message."""
        return {name: source.end for name, source in self.sources.items()}

    def status(self) -> dict[str, SourceStatus]:
        """Return how the sources are doing."""
        return {name: source.status() for name, source in self.sources.items()}

    async def drain(self) -> None:
        """Stop to listen, take what has arrived already, close the connections and sync the logs."""
        if self._drained is None:
            self._drained = asyncio.get_running_loop().create_task(self._drain())
        await asyncio.shield(self._drained)

    def close(self) -> None:
        """Close the logs."""
        for task in (*self._generators, *self._syncing):
            task.cancel()
        for server in self._servers:
            server.close()
        self._unfinished.close()
        self._cannot_accept.close()
        for source in self.sources.values():
            source.close()
        self.sequencer.close()

    async def _drain(self) -> None:
        for _ in range(_LAST_TURNS):
            if not self._connections_waiting():
                break
            await asyncio.sleep(0)
        for generator in self._generators:
            generator.cancel()
        for server in self._servers:
            server.close()
        # It takes the event loop a few turns to go from an accepted socket to a connection.
        for _ in range(_TURNS_TO_CONNECT):
            await asyncio.sleep(0)
        for source in self.sources.values():
            source.read_rest()
        for _ in range(_LAST_TURNS):
            if all(source.is_empty for source in self.sources.values()):
                break
            await asyncio.sleep(0)
        self._sync()

    def _sync(self) -> None:
        for source in self.sources.values():
            source.sync()
        self.sequencer.sync()

    def _connections_waiting(self) -> bool:
        poll = select.poll()
        for server in self._servers:
            for sock in server.sockets:
                poll.register(sock.fileno(), select.POLLIN)
        return bool(poll.poll(0))
