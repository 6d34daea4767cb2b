"""Where the workers of this machine leave large outputs for the driver: in files.

Otherwise they would take the long way through the JVM, which copies them half a dozen times. A chunk then carries the
name of the file and where in it the output is. The driver maps the file into memory, sends from there, and removes all
files at the end of a batch, also those of tasks that failed half-way: at that time nobody reads any.

It is a short cut, and nothing else: where a file cannot be written, or would take the room that others need, the
chunk is left as it is.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import uuid
from pathlib import Path
from struct import Struct

from wallaroo.engine.transport.chunks import Chunk
from wallaroo.errors import WallarooError
from wallaroo.files import room_in

_PLACE = Struct("<QQ")
_WORTH_A_FILE = 256 << 10
_ROOM_FOR_OTHERS = 64 << 20


class OutputsGoneError(WallarooError):
    """What a worker had left for the driver is not there, or cannot be read. The batch can be computed again."""


class SpoolWriter:
    """A worker's side: one file for each task that has something large."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._name = ""
        self._file: int | None = None
        self._size = 0
        self._given_up = False

    def put(self, chunk: Chunk) -> Chunk:
        """Return the chunk with its body in a file, if it is large enough for that."""
        size = len(chunk.body)
        if size < _WORTH_A_FILE or self._given_up or room_in(self._folder) < size + _ROOM_FOR_OTHERS:
            return chunk
        begin = self._size
        try:
            self._write(chunk.body)
        except OSError:
            self._give_up(begin)
            return chunk
        return chunk._replace(file=self._name, body=_PLACE.pack(begin, size))

    def _give_up(self, good: int) -> None:
        """Put no more into the file of this task, of which so many bytes are good."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, good)
        self.close()
        self._given_up = True

    def _write(self, body: bytes | memoryview) -> None:
        if self._file is None:
            self._name = uuid.uuid4().hex
            self._file = os.open(self._folder / self._name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        rest = memoryview(body)
        while rest:
            written = os.write(self._file, rest)
            self._size += written
            rest = rest[written:]

    def close(self) -> None:
        """End the file of a task."""
        if self._file is not None:
            os.close(self._file)
        self._file = None
        self._size = 0
        self._given_up = False


class SpoolReader:
    """The driver's side."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._maps: dict[str, memoryview] = {}

    def get(self, chunk: Chunk) -> Chunk:
        """Return a chunk with its body, wherever that is.

        Raises:
            OutputsGoneError: It is nowhere.
        """
        if chunk.file is None:
            return chunk
        begin, size = _PLACE.unpack(chunk.body)
        if chunk.file not in self._maps:
            try:
                with (self._folder / chunk.file).open("rb") as file:
                    self._maps[chunk.file] = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            except (OSError, ValueError) as error:
                raise OutputsGoneError(f"outputs of a batch cannot be read from {self._folder}: {error}") from error
        body = self._maps[chunk.file][begin : begin + size]
        if len(body) < size:
            raise OutputsGoneError(f"outputs of a batch cannot be read from {self._folder}: a file is too short")
        return chunk._replace(file=None, body=body)

    def clear(self) -> None:
        """Remove all files."""
        self._maps.clear()
        with contextlib.suppress(OSError):
            for file in self._folder.iterdir():
                file.unlink(missing_ok=True)
