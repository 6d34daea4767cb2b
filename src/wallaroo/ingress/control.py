"""The control channel: lines of JSON over a Unix socket that only this user can open."""

from __future__ import annotations

import asyncio
import hmac
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wallaroo.errors import WallarooError
from wallaroo.ingress.lanes import ends_by_source, load_ends
from wallaroo.ingress.sequencer import ReaderChannel, Sequencer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wallaroo.ingress.server import IngressServer
    from wallaroo.ingress.source import Source


_LINE_BYTES = 1 << 20
_SOCKET_MODE = 0o600


class ControlChannel:
    """Answers the requests of the engine. A request is an object with `op` and the token."""

    def __init__(self, server: IngressServer, path: str, token: str) -> None:
        self._ingress = server
        self._path = Path(path)
        self._token = token.encode()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen. A stale socket at the same path is replaced."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.unlink(missing_ok=True)
        previous = os.umask(0o777 & ~_SOCKET_MODE)
        try:
            self._server = await asyncio.start_unix_server(self._serve, self._path, limit=_LINE_BYTES)
        except OSError as error:
            reason = error.strerror or str(error)
            raise WallarooError(f"The control socket {self._path} cannot be made: {reason}.") from error
        finally:
            os.umask(previous)

    def close(self) -> None:
        """Stop listening and remove the socket."""
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await next_request(reader, self._token)) is not None:
                if request["op"] == "blocks":
                    await hand_out(self._ingress.sequencer, request, reader, writer)
                    break
                answer = await self._answer(request)
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        except REQUEST_ERRORS:
            # Our own clients retry.
            pass
        except asyncio.CancelledError:
            # The process is shutting down. Re-raised, this would print a traceback.
            pass
        finally:
            writer.close()

    async def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        ingress = self._ingress
        match request["op"]:
            case "drain":
                await ingress.drain()
                return {"ends": ingress.ends()}
            case "force":
                return {"block": await ingress.force()}
            case "status":
                return {"status": ingress.status()}
            case "damage":
                return {"damage": ingress.sequencer.damage}
            case "end epoch":
                return {"block": ingress.sequencer.end_epoch(request["of"])}
            case "tick":
                ingress.sequencer.tick()
            case "delivered":
                ingress.sequencer.delivered(request["block"])
            case "committed":
                ingress.sequencer.committed(request["block"])
                for source, ends in self._positions(request):
                    source.commit(ends)
            case unknown:
                raise ValueError(unknown)
        return {}

    def _positions(self, request: dict[str, Any]) -> Iterator[tuple[Source, dict[int, int]]]:
        """Yield the positions in a request, without those of sources that the application no longer has."""
        for name, ends in ends_by_source(load_ends(request["ends"])).items():
            if name in self._ingress.sources:
                yield self._ingress.sources[name], ends


REQUEST_ERRORS = (ValueError, KeyError, TypeError, AttributeError, OSError)
"""What is raised by malformed requests, by clients that have disconnected, and by a full disk."""


async def next_request(reader: asyncio.StreamReader, token: bytes) -> dict[str, Any] | None:
    """Return the next request, None at the end of the stream, or if it does not have the token."""
    line = await reader.readline()
    if not line.endswith(b"\n"):
        return None
    request: dict[str, Any] = json.loads(line)
    return request if hmac.compare_digest(str(request["token"]).encode(), token) else None


async def hand_out(
    sequencer: Sequencer, request: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Hand out blocks to a reader until it disconnects."""
    line = ReaderChannel(writer.write, writer.close)
    number = request["reader"]
    try:
        sequencer.join(request["attempt"], number, request["readers"], request["start"], line)
        await reader.read()
    finally:
        sequencer.left(number, line)
