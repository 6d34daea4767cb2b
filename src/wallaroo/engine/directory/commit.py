"""The commit: one file with the block up to which everything is computed, and where the corresponding states are.

It also has the last message of each lane of a source in these blocks. It is replaced atomically, so there is always
exactly one: states, and the position in the sequence that they belong to, are always consistent. State files that
neither this commit nor the previous one refers to are removed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from wallaroo.engine.state_manifest import BucketName, StateSize, StoredHead, entry_sizes
from wallaroo.errors import DirectoryError
from wallaroo.files import write_atomically
from wallaroo.ingress.lanes import Lane, dump_ends, load_ends


class Commits:
    """The latest commit of an application, and the creation of the next.

    Without a folder of states it is read-only.
    """

    def __init__(self, path: Path, states: Path | None = None) -> None:
        self._path = path
        self._states = states
        self.block = 0
        """The first block that is not committed."""
        self.ends: dict[Lane[str], int] = {}
        """The end of the messages of each lane in the blocks before that."""
        self.heads: dict[BucketName, StoredHead] = {}
        self._before: set[str] = set()
        self._is_sure = True
        """Whether the file matches this object: after a failed sync it may already have the next commit."""
        if path.exists():
            self._read()
        if states is not None:
            states.mkdir(mode=0o700, exist_ok=True)
            self.remove_unnamed()

    def remove_unnamed(self) -> None:
        """Remove state files of an attempt that failed before its commit."""
        named = self._named() | self._before
        if self._is_sure:
            self._remove(lambda name: name not in named)

    def _read(self) -> None:
        try:
            data: dict[str, Any] = json.loads(self._path.read_text())
            self.block = int(data["block"])
            self.ends = load_ends(_in_lanes(data["ends"]))
            self.heads = {
                (state, int(bucket)): StoredHead.from_json(head)
                for state, buckets in data["states"].items()
                for bucket, head in buckets.items()
            }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DirectoryError(
                f"{self._path} is damaged, and the state cannot be found without it. Restore it from a copy, or "
                "start fresh with --reset, which keeps what is there in a folder of its own."
            ) from error

    def commit(self, block: int, changed: Mapping[BucketName, StoredHead], ends: Mapping[Lane[str], int]) -> None:
        """Commit everything before `block`, with the heads and the ends of lanes that have changed.

        A state that the application no longer has is retained: it may be used again.
        """
        named = self._named()
        heads = {**self.heads, **changed}
        ends = {**self.ends, **ends}
        states: dict[str, dict[str, Any]] = {}
        for (state, bucket), head in heads.items():
            states.setdefault(state, {})[str(bucket)] = head.as_json()
        self._is_sure = False
        write_atomically(self._path, json.dumps({"block": block, "ends": dump_ends(ends), "states": states}))
        self._is_sure = True
        self.block, self.heads, self.ends = block, heads, ends
        # Delete what only the commit before the previous one needs: a task may still be reading files of the previous.
        gone = self._before - named - self._named()
        self._before = named
        self._remove(gone.__contains__)

    def state_bytes(self) -> int:
        """Return how many bytes the states take on disk; can be called from any thread."""
        if self._states is None:
            return 0
        total = 0
        for name in self._named():
            with suppress(FileNotFoundError):
                total += (self._states / name).stat().st_size
        return total

    def state_sizes(self) -> dict[str, StateSize]:
        """Return the size of each state; can be called from any thread."""
        sizes: dict[str, list[list[int]]] = {}
        for (state, _), stored in self.heads.items():
            sizes.setdefault(state, []).append(entry_sizes(stored.head))
        return {
            state: StateSize(len(buckets), sum(map(len, buckets)), sum(map(sum, buckets)))
            for state, buckets in sizes.items()
        }

    def _named(self) -> set[str]:
        return {place.file for head in self.heads.values() for place in head.places.values()}

    def _remove(self, goes: Any) -> None:
        for path in self._states.iterdir() if self._states else ():
            if goes(path.name):
                path.unlink(missing_ok=True)


def _in_lanes(ends: Any) -> Any:
    """Return the ends of a commit as `load_ends` takes them; up to format 3 they were in an object, by source."""
    return [(source, 0, end) for source, end in ends.items()] if isinstance(ends, dict) else ends
