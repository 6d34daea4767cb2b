"""What is common to the ways in which others ask the ingress for something: lines of JSON, each with the token."""

from __future__ import annotations

import asyncio
import hmac
import json
from typing import Any

from wallaroo.ingress.sequencer import Line, Sequencer

NOT_OURS = (ValueError, KeyError, TypeError, AttributeError, OSError)
"""What is raised by requests that are not one of our clients', by clients that have gone, by a disk that is full."""


async def next_request(reader: asyncio.StreamReader, token: bytes) -> dict[str, Any] | None:
    """Return the next request, None at the end, or where it does not have the token."""
    line = await reader.readline()
    if not line.endswith(b"\n"):
        return None
    request: dict[str, Any] = json.loads(line)
    return request if hmac.compare_digest(str(request["token"]).encode(), token) else None


async def hand_out(
    sequencer: Sequencer, request: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Hand blocks to a reader for as long as it stays."""
    line = Line(writer.write, writer.close)
    number = request["reader"]
    sequencer.join(request["attempt"], number, request["readers"], request["start"], line)
    try:
        await reader.read()
    finally:
        sequencer.left(number, line)
