"""How blocks are framed for receivers that drop repeats; docs/reference/wire-formats.md describes it for their authors.

The sink sends a header and the block behind it. The receiver answers with the block's number once it has the block
for good, whether this was the first time that the block came or not.
"""

from __future__ import annotations

import uuid
from struct import Struct

MAGIC = b"WAL1"
HEADER = Struct(">4s16sQQ")
"""`MAGIC`, the stream, the block's number, the length of the block."""
ANSWER = Struct(">Q")
"""The number of the block that the receiver has."""


def stream_id(application: str, sink: str) -> bytes:
    """Return the name of what an application sends to a sink: the same as long as its state lives.

    `application` is the id of that state.

    >>> len(stream_id("6f1c3f0d8a3b4b0f9d0a6a1f2f3e4d5c", "127.0.0.1:7002"))
    16
    """
    return uuid.uuid5(uuid.UUID(application), sink).bytes
