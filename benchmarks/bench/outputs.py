"""Whether two programs have the same output. Only then do their times count."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.errors import DifferentOutputError

_BYTES_AT_ONCE = 8 << 20


class Expected:
    """What a workload's outputs should be: those of the pure loop, which are in the order of the input.

    Lines are not kept but hashed, 64 bits each, as there are many of them.
    """

    def __init__(self, paths: Sequence[Path], *, has_keys: bool) -> None:
        self._in_order = _per_key if has_keys else _whole
        self._digests = {digest: digest(paths) for digest in (self._in_order, _multiset)}
        self.size = size_of(paths)

    def check(self, who: str, paths: Sequence[Path], *, in_order: bool) -> None:
        """Raise an error unless the files hold the same outputs.

        `in_order`: in the order of the input as well, for each key where there are keys.
        """
        digest = self._in_order if in_order else _multiset
        if digest(paths) != self._digests[digest]:
            size = size_of(paths)
            raise DifferentOutputError(f"{who} put out something else ({size:,} bytes, not {self.size:,}).")


def size_of(paths: Sequence[Path]) -> int:
    """Return how many bytes files have together."""
    return sum(path.stat().st_size for path in paths)


def _whole(paths: Sequence[Path]) -> str:
    digest = hashlib.blake2b()
    for path in paths:
        with path.open("rb") as file:
            while data := file.read(_BYTES_AT_ONCE):
                digest.update(data)
    return digest.hexdigest()


def _multiset(paths: Sequence[Path]) -> tuple[int, int]:
    number = total = 0
    for lines in _lines(paths):
        number += len(lines)
        total += sum(map(hash, lines))
    return number, total


def _per_key(paths: Sequence[Path]) -> dict[bytes, int]:
    """Return for each key a hash over its lines in their order."""
    chains: dict[bytes, int] = {}
    get = chains.get
    for lines in _lines(paths):
        for line in lines:
            key = line[: line.index(b" ")]
            chains[key] = hash((get(key, 0), line))
    return chains


def _lines(paths: Sequence[Path]) -> Iterator[list[bytes]]:
    for path in paths:
        with path.open("rb") as file:
            while lines := file.readlines(_BYTES_AT_ONCE):
                yield lines
