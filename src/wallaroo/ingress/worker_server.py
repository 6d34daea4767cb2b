"""Serves the workers on the machines of a cluster, over TCP: blocks and their messages, nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from wallaroo.addresses import Address
from wallaroo.errors import AddressError
from wallaroo.ingress.control import REQUEST_ERRORS, hand_out, next_request
from wallaroo.ingress.log.format import LogCorruptError
from wallaroo.ingress.log.reader import LogReader, RawPiece
from wallaroo.ingress.sequencer import Sequencer
from wallaroo.ingress.worker_client import ALL, DAMAGED, HEAD, PIECE
from wallaroo.internal_sockets import HELLO_TIMEOUT_SECONDS, MAX_UNAUTHENTICATED, listen

MAX_LINE_BYTES = 1 << 16


class WorkerServer:
    """Hands out the blocks of `sequencer`, and the messages in `logs`, the folders of the sources' logs."""

    def __init__(self, sequencer: Sequencer, logs: Mapping[str, str], token: str) -> None:
        self._sequencer = sequencer
        self._logs = {source: LogReader(Path(folder)) for source, folder in logs.items()}
        self._token = token.encode()
        self._unauthenticated: dict[asyncio.StreamWriter, None] = {}
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port: the given one, or, for 0, a free one."""
        address = str(Address(host, port))
        try:
            listener = listen(address)
        except OSError as error:
            raise AddressError(
                f"Cannot listen on {address} for the workers of the cluster: {error.strerror or error}. "
                "Set the address of this machine that they can reach: --spark-conf spark.driver.bindAddress=ADDRESS."
            ) from error
        self._server = await asyncio.start_server(self._serve, sock=listener, limit=MAX_LINE_BYTES)
        found: int = listener.getsockname()[1]
        return found

    def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await self._first_request(reader, writer)
            while request is not None and request["op"] == "messages":
                await self._send_messages(request, writer)
                request = await next_request(reader, self._token)
            if request is not None and request["op"] == "blocks":
                await hand_out(self._sequencer, request, reader, writer)
        except (*REQUEST_ERRORS, TimeoutError):
            pass
        except asyncio.CancelledError:
            # The process is shutting down. Re-raised, this would print a traceback.
            pass
        finally:
            writer.close()

    async def _first_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> dict[str, Any] | None:
        """Return the first request of a new connection, if it has the token and arrives in time."""
        if len(self._unauthenticated) >= MAX_UNAUTHENTICATED:
            # Our own workers send their request immediately, so this is not one of them.
            longest = next(iter(self._unauthenticated))
            del self._unauthenticated[longest]
            longest.transport.abort()
        self._unauthenticated[writer] = None
        try:
            async with asyncio.timeout(HELLO_TIMEOUT_SECONDS):
                return await next_request(reader, self._token)
        finally:
            self._unauthenticated.pop(writer, None)

    async def _send_messages(self, request: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        """Send a range of messages; only one piece of it is in memory, however slowly the client reads."""
        pieces = self._pieces(request["source"], request["first"], request["end"])
        last = HEAD.pack(ALL, 0, 0, 0, 0)
        try:
            # In a thread: other connections must not wait for the disk.
            while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
                writer.write(HEAD.pack(PIECE, piece.first, piece.data_start, len(piece.ends), len(piece.data)))
                writer.write(piece.ends)
                writer.write(piece.data)
                await writer.drain()
        except LogCorruptError as error:
            text = str(error).encode()
            last = HEAD.pack(DAMAGED, 0, 0, 0, len(text)) + text
        finally:
            # If this task is cancelled, the thread may still be reading.
            with suppress(ValueError):
                pieces.close()
        writer.write(last)
        await writer.drain()

    def _pieces(self, source: str, first: int, end: int) -> Generator[RawPiece]:
        log = self._logs[source]
        for low, high in log.present(first, end):
            yield from log.read_raw(low, high)
