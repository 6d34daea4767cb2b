"""Reads what the application's directory says of a sink."""

import contextlib
from pathlib import Path


def ledger_of(home: Path, sink: str) -> tuple[int, tuple[int, int]]:
    """Return the last block that was recorded, and the last note of how many bytes of a block were sent."""
    recorded, part = -1, (-1, 0)
    with contextlib.suppress(FileNotFoundError):
        for line in (home / "ledger").read_text().splitlines():
            match line.split("\t"):
                case [block, name] if name == sink:
                    recorded = int(block)
                case [block, name, size, _] if name == sink:
                    part = int(block), int(size)
    return recorded, part
