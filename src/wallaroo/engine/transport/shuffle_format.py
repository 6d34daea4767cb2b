"""The format of messages between stages: a *share* is all data of a block for one partition of a stage.

A row of Spark is a share, or, if several blocks are available together, their shares back to back. A share is an
ordered list of chunks, the first of which is the block's record. A chunk is many messages for one route:

- for a state, the messages with their keys, packed together; its marks say which keys are in which bucket;
- for a sink, encoded messages back to back; its marks are their lengths;
- for the driver, dead letters, printed text, or how many states were made for keys that were not listed.

`part` is the range of the block that a chunk comes from: if several pipelines share a state, its messages are processed
in the order in which they were accepted.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from wallaroo.connectors.output_block import Body

DEAD_LETTERS = -1
"""The route of messages that failed: a JSON list of records for the dead-letter file."""
PRINTED = -2
"""The route of output that user code has printed: text for the user's screen."""
BLOCK = -3
"""The route of a block's record."""
UNLISTED_KEYS = -4
"""The route of states that were made for keys that were not listed: JSON with their number, and a key, by state."""

_HEAD = Struct("<iIIII")


class Chunk(NamedTuple):
    """Messages for one route; its fields are described at the top of this module."""

    route: int
    part: int
    number: int
    body: Body
    marks: array[int] = array("I")


def pack_share(chunks: Iterable[Chunk]) -> bytes:
    """Return chunks as the bytes of a row.

    >>> chunk = Chunk(3, 0, 2, b"onetwo", array("I", [3, 3]))
    >>> [read] = unpack_share(pack_share([chunk]))
    >>> read.route, read.number, bytes(read.body), read.marks
    (3, 2, b'onetwo', array('I', [3, 3]))
    """
    pieces: list[Body] = []
    for route, part, number, body, marks in chunks:
        packed = marks.tobytes()
        pieces += (_HEAD.pack(route, part, number, len(packed), len(body)), packed, body)
    return b"".join(pieces)


def split_shares(shares: memoryview) -> Iterator[memoryview]:
    """Yield the shares of several blocks that are back to back: each starts with its block's record.

    >>> one, two = (pack_share([Chunk(BLOCK, 0, 0, name), Chunk(3, 0, 1, b"x")]) for name in (b"first", b"second"))
    >>> [bytes(share) for share in split_shares(memoryview(one + two))] == [one, two]
    True
    """
    begin = at = 0
    while at < len(shares):
        route, _, _, marks_size, body_size = _HEAD.unpack_from(shares, at)
        if route == BLOCK and at > begin:
            yield shares[begin:at]
            begin = at
        at += _HEAD.size + marks_size + body_size
    yield shares[begin:]


def unpack_share(share: bytes | memoryview) -> Iterator[Chunk]:
    """Yield the chunks of a row; their bodies are not copied."""
    view = memoryview(share)
    at = 0
    while at < len(view):
        route, part, number, marks_size, body_size = _HEAD.unpack_from(view, at)
        at += _HEAD.size
        marks = array("I")
        marks.frombytes(view[at : at + marks_size])
        at += marks_size
        yield Chunk(route, part, number, view[at : at + body_size], marks)
        at += body_size
