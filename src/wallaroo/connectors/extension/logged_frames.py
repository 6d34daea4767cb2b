"""What the log of a source extension has beside the messages: which script they come from, and their sequences.

The messages of a frame are appended to the log at once. In front of the first one, in the same entry, is a note with
what the application has of the script and of partitions after them. So a message and the fact that the application has
it are in the log together, or neither is.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple
from zlib import crc32

from wallaroo.connectors.base import Piece, SourceReader

_MAGIC = b"\xf7WALnote"
_HEAD = struct.Struct(">8sIII")


class Note(NamedTuple):
    """What the application has after the messages of a frame."""

    messages: int
    """How many messages the frame has."""
    script: str
    number: int
    """The number that the script has given the last one."""
    sequences: dict[str, int]
    """The last sequences, by partition, of those that the frame has messages of."""

    def pack(self) -> bytes:
        """Return what goes in front of the first message."""
        text = json.dumps([self.script, self.number, self.sequences], separators=(",", ":")).encode()
        return _HEAD.pack(_MAGIC, self.messages, len(text), crc32(text)) + text


def split_note(entry: bytes) -> tuple[Note | None, int]:
    """Return the note of the first entry of a frame, and where the message begins.

    >>> note = Note(2, "a script", 17, {"a file": 8})
    >>> split_note(note.pack() + b"the message") == (note, len(note.pack()))
    True
    >>> split_note(b"a message of another kind of source")
    (None, 0)
    """
    if not entry.startswith(_MAGIC) or len(entry) < _HEAD.size:
        return None, 0
    _, count, length, checksum = _HEAD.unpack_from(entry)
    begin = _HEAD.size + length
    text = entry[_HEAD.size : begin]
    if len(text) != length or crc32(text) != checksum:
        return None, 0
    said: Any = json.loads(text)
    return Note(count, *said), begin


class FrameReader(SourceReader):
    """Reads messages from the log, without the notes."""

    def __init__(self, log: SourceReader) -> None:
        self._log = log

    def read(self, first: int, end: int, lane: int = 0) -> Iterator[Piece]:
        """Yield the messages from `first` to `end`, without `end`."""
        for position, entries in self._log.read(first, end, lane):
            at = 0
            while at < len(entries):
                note, begin = split_note(entries[at])
                entries[at] = entries[at][begin:]
                at += max(note.messages, 1) if note is not None else 1
            yield position, entries
