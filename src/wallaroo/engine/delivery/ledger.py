"""The ledger: the last block that was sent to each sink, so that none is sent twice after a restart."""

from __future__ import annotations

import errno
import os
import re
import uuid
from pathlib import Path
from typing import NamedTuple

from wallaroo.files import reserve, write_atomically

_REWRITE_AT_BYTES = 1 << 20
_ROOM_FOR_A_BLOCK = 64 << 10
_ID = "id"


class Part(NamedTuple):
    """How much of a block has been sent to a sink: `size` bytes, with this checksum."""

    block: int
    size: int
    checksum: int


class Ledger:
    """Appends a line for each event; the file is compacted when it is too long.

    `block<TAB>sink`: the whole block was sent. `block<TAB>sink<TAB>size<TAB>checksum`: this much of it was sent.
    `id<TAB>id`: the id of the state whose blocks are recorded here, generated with the ledger.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.id = uuid.uuid4().hex
        self._last: dict[str, int] = {}
        self._parts: dict[str, Part] = {}
        self._file = -1
        self._size = 0
        self._reserved = 0
        if path.exists():
            self._read()
        self._compact()

    def _read(self) -> None:
        # A crash can tear the last line: an incomplete line does not count.
        complete, _, _ = self._path.read_bytes().rpartition(b"\n")
        for line in complete.decode(errors="replace").splitlines():
            match line.split("\t"):
                case [block, sink] if block.isdigit():
                    self._last[sink] = int(block)
                case [block, sink, size, checksum] if f"{block}{size}{checksum}".isdigit():
                    self._parts[sink] = Part(int(block), int(size), int(checksum))
                case [key, value] if key == _ID and re.fullmatch("[0-9a-f]{32}", value):
                    self.id = value

    def _compact(self) -> None:
        lines = [f"{_ID}\t{self.id}\n"]
        lines += [f"{block}\t{sink}\n" for sink, block in self._last.items()]
        lines += [_line(sink, part) for sink, part in self._parts.items() if not self.has(sink, part.block)]
        write_atomically(self._path, "".join(lines))
        self._open()

    def _open(self) -> None:
        replaced, self._file = self._file, os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        if replaced >= 0:
            os.close(replaced)
        self._size = os.fstat(self._file).st_size
        self._reserved = 0

    def make_room(self) -> None:
        """Reserve disk space for the records of a block, before any of it is sent.

        Raises:
            OSError: There is no space. What was sent and could not be recorded would be sent again by the next run.
        """
        if self._size + _ROOM_FOR_A_BLOCK > self._reserved:
            reserved = self._size + 2 * _ROOM_FOR_A_BLOCK
            reserve(self._file, reserved)
            self._reserved = reserved

    def has(self, sink: str, block: int) -> bool:
        """Return whether `block` has been sent to `sink`."""
        return self._last.get(sink, -1) >= block

    @property
    def next(self) -> int:
        """Return the number of the first block of which nothing has been sent to any sink."""
        parts = (part.block for part in self._parts.values())
        return 1 + max((*self._last.values(), *parts), default=-1)

    def record(self, sink: str, block: int) -> None:
        """Record that `block` has been sent to `sink`."""
        self._last[sink] = block
        self._write(f"{block}\t{sink}\n")

    def part(self, sink: str, block: int) -> Part:
        """Return how much of `block` has been sent to `sink`; nothing, if that is not known."""
        part = self._parts.get(sink)
        return part if part is not None and part.block == block else Part(block, 0, 0)

    def record_part(self, sink: str, part: Part) -> None:
        """Record how much of a block has been sent to `sink`."""
        self._parts[sink] = part
        self._write(_line(sink, part))

    def _write(self, line: str) -> None:
        data = line.encode()
        written = os.write(self._file, data)
        if written < len(data):
            # A partial line would corrupt the next one.
            os.ftruncate(self._file, os.fstat(self._file).st_size - written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
        self._size += written
        if self._size > _REWRITE_AT_BYTES:
            try:
                self._compact()
            except OSError:
                # On a full disk the file stays long for a while; but if it was already replaced, reopen it.
                if not os.fstat(self._file).st_nlink:
                    self._open()

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _line(sink: str, part: Part) -> str:
    return f"{part.block}\t{sink}\t{part.size}\t{part.checksum}\n"
