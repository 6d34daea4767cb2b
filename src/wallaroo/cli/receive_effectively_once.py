"""Implements `wallaroo receive --effectively-once` for framed blocks: each is written exactly once, as a whole.

The received blocks are recorded together with the length of the output after them. A block counts once that record is
written: after a crash, output beyond the recorded length is truncated.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from wallaroo.cli import screen
from wallaroo.cli.framing import Data, Reading
from wallaroo.connectors.tcp.confirmed_sink import ANSWER, HEADER, MAGIC
from wallaroo.errors import WallarooError
from wallaroo.files import write_atomically

_IN_MEMORY_AT_MOST = 16 << 20
_PIECE = 1 << 20


class NotABlockError(WallarooError):
    """The received data is not a framed block."""


class Record:
    """The last block received of each stream, and the length of the output with it; in a file, if given."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._last: dict[str, int] = {}
        self.length = 0
        if path is not None and path.exists():
            self._read(path)

    def _read(self, path: Path) -> None:
        try:
            content = json.loads(path.read_text())
            self._last = {stream: int(block) for stream, block in content["batches"].items()}
            self.length = int(content["length"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise WallarooError(
                f"{path} is not a record of received blocks. Name another file with --remember, or delete this one "
                "to start fresh."
            ) from error

    def has(self, stream: bytes, block: int) -> bool:
        """Return whether a block has been received: those of a stream arrive in order."""
        return self._last.get(stream.hex(), -1) >= block

    def add(self, stream: bytes, block: int, length: int) -> None:
        """Record a block as received, with the length of the output after it."""
        blocks = {**self._last, stream.hex(): block}
        if self._path is not None:
            write_atomically(self._path, json.dumps({"length": length, "batches": blocks}, indent=2) + "\n")
        self._last, self.length = blocks, length


class BlockOutput:
    """Writes blocks, each exactly once, as a whole.

    `file` is the descriptor behind `write` if it can be truncated: the file is then cut to the recorded length, and
    continues after the last block that counts.
    """

    def __init__(
        self,
        write: Callable[[Data], None],
        record: Record,
        reading: Callable[[], Reading],
        file: int | None = None,
        warn: Callable[[str], None] = screen.say,
    ) -> None:
        self.repeats = 0
        self._output = write
        self._record = record
        self._reading = reading
        self._file = file if file is not None and stat.S_ISREG(os.fstat(file).st_mode) else None
        self._warn = warn
        self._view = memoryview(bytearray(_PIECE))
        if self._file is not None and os.fstat(self._file).st_size < record.length:
            raise WallarooError(
                "The output is shorter than the record of received blocks says, so it has been changed. "
                "To start fresh, delete both files."
            )
        self._cut()

    def take(self, stream: bytes, block: int, body: IO[bytes]) -> int:
        """Write a block if it was not received before; return how many messages were written."""
        if self._record.has(stream, block):
            self.repeats += 1
            return 0
        try:
            size, messages = self._write(body)
            with _undisturbed():
                if self._file is not None:
                    os.fsync(self._file)
                self._record.add(stream, block, self._record.length + size)
        except BaseException:
            self._cut()
            raise
        return messages

    def _write(self, body: IO[bytes]) -> tuple[int, int]:
        reading = self._reading()
        size = messages = 0
        body.seek(0)
        while length := body.readinto(self._view):  # type: ignore[attr-defined]
            data, count = reading.take(self._view[:length], None)
            messages += count
            size += len(data)
            self._output(data)
        if reading.missing():
            self._warn("a block ends in the middle of a frame; does --framing match what the encoder returns?")
        return size, messages + reading.end()

    def _cut(self) -> None:
        """Truncate a file after the last block that counts."""
        if self._file is not None:
            os.ftruncate(self._file, self._record.length)


class Blocks:
    """The framed blocks of one connection: buffered until complete, written, and then confirmed."""

    def __init__(self, output: BlockOutput, connection: socket.socket) -> None:
        self._output = output
        self._connection = connection
        self._header = bytearray()
        self._missing = 0
        self._body: IO[bytes] | None = None
        self._answers = bytearray()

    def take(self, piece: memoryview, room: int | None) -> tuple[Data, int]:
        """Take received bytes; complete blocks are written at once, so there is nothing to pass on."""
        messages = 0
        while piece and (room is None or messages < room):
            piece = self._to_header(piece) if self._body is None else self._to_body(piece)
            if self._body is not None and not self._missing:
                messages += self._complete(self._body)
        return b"", messages

    def settle(self) -> None:
        """Confirm the blocks that have been written."""
        # A sender that does not get the confirmation sends the block again, on a new connection.
        with contextlib.suppress(OSError):
            self._connection.send(self._answers)
        self._answers.clear()

    def end(self) -> int:
        """Drop an incomplete block."""
        if self._body is not None:
            self._body.close()
        return 0

    def missing(self) -> int:
        """Return the minimum number of bytes missing from the current block; 0 between two blocks."""
        return self._missing or (HEADER.size - len(self._header) if self._header else 0)

    def _to_header(self, piece: memoryview) -> memoryview:
        wanted = HEADER.size - len(self._header)
        self._header += piece[:wanted]
        # Checked from the first byte on: a sender without framing may send only a few bytes.
        if not (self._header.startswith(MAGIC) or MAGIC.startswith(self._header)):
            raise NotABlockError(
                f"what was received is not a framed block: it begins with {bytes(self._header[:8])!r}. "
                "Does the sender run with --effectively-once?"
            )
        if len(self._header) == HEADER.size:
            _, _, _, self._missing = HEADER.unpack(self._header)
            self._body = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_AT_MOST)  # noqa: SIM115 - outlives this call
        return piece[wanted:]

    def _to_body(self, piece: memoryview) -> memoryview:
        assert self._body is not None
        some = piece[: self._missing]
        self._body.write(some)
        self._missing -= len(some)
        return piece[len(some) :]

    def _complete(self, body: IO[bytes]) -> int:
        _, stream, number, _ = HEADER.unpack(self._header)
        self._header.clear()
        self._body = None
        with body:
            messages = self._output.take(stream, number, body)
        self._answers += ANSWER.pack(number)
        return messages


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Block signals, so that related changes are made together."""
    signals = {signal.SIGINT, signal.SIGTERM}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
