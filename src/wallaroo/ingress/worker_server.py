"""What machines of a cluster may ask the ingress for, over TCP: blocks, and the messages in them. Nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from wallaroo.channels import HELLO_SECONDS, MOST_STRANGERS, joined, listen
from wallaroo.errors import AddressError
from wallaroo.ingress.control import NOT_OURS, hand_out, next_request
from wallaroo.ingress.log.format import LogCorruptError
from wallaroo.ingress.log.reader import LogReader, RawPiece
from wallaroo.ingress.sequencer import Sequencer
from wallaroo.ingress.worker_client import ALL, DAMAGED, HEAD, PIECE

LONGEST_LINE = 1 << 16


class WorkerServer:
    """Hands out the blocks of `sequencer`, and the messages in `logs`, the folders of the sources' logs."""

    def __init__(self, sequencer: Sequencer, logs: Mapping[str, str], token: str) -> None:
        self._sequencer = sequencer
        self._logs = {source: LogReader(Path(folder)) for source, folder in logs.items()}
        self._token = token.encode()
        self._strangers: dict[asyncio.StreamWriter, None] = {}
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port: the one that is given, or, for 0, a free one."""
        try:
            listener = listen(joined(host, port))
        except OSError as error:
            raise AddressError(
                f"Workers of the cluster cannot be waited for on {joined(host, port)}: {error.strerror or error}. "
                "Say which address of this machine they reach: --spark-conf spark.driver.bindAddress=ADDRESS."
            ) from error
        self._server = await asyncio.start_server(self._serve, sock=listener, limit=LONGEST_LINE)
        found: int = listener.getsockname()[1]
        return found

    def close(self) -> None:
        """Stop to listen."""
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
        except (*NOT_OURS, TimeoutError):
            pass
        except asyncio.CancelledError:
            # The process ends. Passed on, this would end as a traceback on the screen.
            pass
        finally:
            writer.close()

    async def _first_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> dict[str, Any] | None:
        """Return what somebody who has connected asks for first, if it has the token, and does not take too long."""
        if len(self._strangers) >= MOST_STRANGERS:
            # A worker of ours speaks at once, so this is not one.
            longest = next(iter(self._strangers))
            del self._strangers[longest]
            longest.transport.abort()
        self._strangers[writer] = None
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                return await next_request(reader, self._token)
        finally:
            self._strangers.pop(writer, None)

    async def _send_messages(self, request: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        """Send a range of messages; no more of it is in memory than a piece, however slowly the other side reads."""
        pieces = self._pieces(request["source"], request["first"], request["end"])
        last = HEAD.pack(ALL, 0, 0, 0, 0)
        try:
            # In a thread: others are not to wait for the disk.
            while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
                writer.write(HEAD.pack(PIECE, piece.first, piece.data_start, len(piece.ends), len(piece.data)))
                writer.write(piece.ends)
                writer.write(piece.data)
                await writer.drain()
        except LogCorruptError as error:
            text = str(error).encode()
            last = HEAD.pack(DAMAGED, 0, 0, 0, len(text)) + text
        finally:
            # Where this task is cancelled, the thread may still be reading.
            with suppress(ValueError):
                pieces.close()
        writer.write(last)
        await writer.drain()

    def _pieces(self, source: str, first: int, end: int) -> Generator[RawPiece]:
        log = self._logs[source]
        for low, high in log.present(first, end):
            yield from log.read_raw(low, high)
