"""The ledger: which batch each sink was last sent, so that none is sent twice after a restart."""

from __future__ import annotations

import os
from pathlib import Path

from wallaroo.engine.home import write_atomically

_REWRITE_AT_BYTES = 1 << 20


class Ledger:
    """One line per delivery, `batch<TAB>sink`, appended when it is done; rewritten now and then to stay short."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last: dict[str, int] = {}
        if path.exists():
            self._read()
        self._compact()

    def _read(self) -> None:
        # A crash can tear the last line: what was not written completely was not recorded.
        complete, _, _ = self._path.read_bytes().rpartition(b"\n")
        for line in complete.decode(errors="replace").splitlines():
            batch, tab, sink = line.partition("\t")
            if tab and batch.isdigit():
                self._last[sink] = int(batch)

    def _compact(self) -> None:
        lines = (f"{batch}\t{sink}\n" for sink, batch in self._last.items())
        write_atomically(self._path, "".join(lines))
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self._size = 0

    def has(self, sink: str, batch: int) -> bool:
        """Tell whether `sink` has been sent `batch`."""
        return self._last.get(sink, -1) >= batch

    def record(self, sink: str, batch: int) -> None:
        """Write down that `sink` has been sent `batch`."""
        self._last[sink] = batch
        self._size += os.write(self._file, f"{batch}\t{sink}\n".encode())
        if self._size > _REWRITE_AT_BYTES:
            os.close(self._file)
            self._compact()

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
