"""The ingress server: listens for each source, and tells the engine how far the logs reach."""

from __future__ import annotations

import asyncio
import select
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from wallaroo.ingress.generator import Generator
from wallaroo.ingress.listen import open_sockets
from wallaroo.ingress.source import Source, SourceStatus

if TYPE_CHECKING:
    from collections.abc import Callable

    from wallaroo.ingress.config import IngressConfig, SourceEndpoint

LISTEN_BACKLOG = 1024

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
        self._notice = on_notice
        self._waiters: set[asyncio.Future[None]] = set()
        self._drained: asyncio.Task[None] | None = None
        self.nudged = False
        with ExitStack() as opened:
            for endpoint in config.sources:
                source = Source(endpoint, config, self._wake, on_notice)
                opened.callback(source.close)
                self.sources[endpoint.name] = source
            opened.pop_all()

    async def start(self) -> dict[str, tuple[str, int]]:
        """Listen for every source, and return the addresses."""
        addresses = {}
        loop = asyncio.get_running_loop()
        for endpoint in self._config.sources:
            if endpoint.generator is not None:
                self._generators.append(loop.create_task(self._generator_of(endpoint).run()))
                continue
            sockets = open_sockets(endpoint)
            addresses[endpoint.name] = sockets[0].getsockname()[:2]
            factory = self.sources[endpoint.name].new_connection
            for sock in sockets:
                self._servers.append(await loop.create_server(factory, sock=sock, backlog=LISTEN_BACKLOG))
        return addresses

    def _generator_of(self, endpoint: SourceEndpoint) -> Generator:
        source = self.sources[endpoint.name]
        return Generator(endpoint.generator, source, Path(endpoint.log_directory), self._notice)

    @property
    def draining(self) -> bool:
        """Return whether the server has stopped to accept anything, or is about to."""
        return self._drained is not None

    def ends(self) -> dict[str, int]:
        """Return for each source the index after its last message."""
        return {name: source.end for name, source in self.sources.items()}

    def status(self) -> dict[str, SourceStatus]:
        """Return how the sources are doing."""
        return {name: source.status() for name, source in self.sources.items()}

    def nudge(self) -> None:
        """Make the next wait, or one that is under way, return at once."""
        self.nudged = True
        self._wake()

    async def wait(self, known: dict[str, int], timeout: float) -> None:  # noqa: ASYNC109 - part of the protocol.
        """Wait until a log reaches further than `known`, or for a nudge, or for `timeout` seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while not self.nudged and all(end <= known.get(name, 0) for name, end in self.ends().items()):
            waiter: asyncio.Future[None] = loop.create_future()
            self._waiters.add(waiter)
            try:
                async with asyncio.timeout_at(deadline):
                    await waiter
            except TimeoutError:
                return
            finally:
                self._waiters.discard(waiter)

    async def drain(self) -> None:
        """Stop to listen, take what has arrived already, close the connections and sync the logs."""
        if self._drained is None:
            self._drained = asyncio.get_running_loop().create_task(self._drain())
        await asyncio.shield(self._drained)

    def close(self) -> None:
        """Close the logs."""
        for generator in self._generators:
            generator.cancel()
        for server in self._servers:
            server.close()
        for source in self.sources.values():
            source.close()

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

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
        for source in self.sources.values():
            source.sync()

    def _connections_waiting(self) -> bool:
        poll = select.poll()
        for server in self._servers:
            for sock in server.sockets:
                poll.register(sock.fileno(), select.POLLIN)
        return bool(poll.poll(0))
