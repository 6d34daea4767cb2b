"""Storage of states: files of entries that are written once and never changed.

Between two commits, a task writes the entries of all its buckets to one file. Only what a commit refers to is valid,
not whatever is in the folder: for each bucket its head, and where each of its entries is (see
`engine.directory.commit`). So an attempt that never commits leaves only an unused file.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from wallaroo.engine.stages.live_state import BucketStore, MemoryStore
from wallaroo.engine.state_manifest import BucketName, Place, StoredHead

_FILE_MODE = 0o600


class BucketStores(Protocol):
    """The durable storage of the buckets of one task between two commits."""

    def bucket(self, name: BucketName) -> BucketStore:
        """Return the storage of one bucket."""

    def sync(self) -> None:
        """Make everything written durable."""


class MemoryStores:
    """Buckets in memory, for runs without Spark (`BucketStores`)."""

    def __init__(self) -> None:
        self._stores: dict[BucketName, MemoryStore] = {}

    def bucket(self, name: BucketName) -> MemoryStore:
        """Return a bucket."""
        return self._stores.setdefault(name, MemoryStore(name[0]))

    def sync(self) -> None:
        """Do nothing: memory is not durable."""


class StateFiles:
    """The buckets of one task between two commits (`BucketStores`)."""

    def __init__(self, folder: Path, heads: Mapping[BucketName, StoredHead]) -> None:
        self._folder = folder
        self._heads = dict(heads)
        self._changed: set[BucketName] = set()
        self._readers: dict[str, int] = {}
        self._new = f"{uuid.uuid4().hex}.entries"
        self._writer = -1
        self.written = 0
        """How many bytes of entries have been written since the start of the epoch."""

    def bucket(self, name: BucketName) -> FileBucket:
        """Return the storage of a bucket."""
        return FileBucket(self, name)

    def head(self, name: BucketName) -> StoredHead | None:
        """Return the head of a bucket, or None if none was ever written."""
        return self._heads.get(name)

    def set_head(self, name: BucketName, head: StoredHead) -> None:
        """Replace the head of a bucket."""
        self._heads[name] = head
        self._changed.add(name)

    def changed(self) -> dict[BucketName, StoredHead]:
        """Return the heads that have been replaced."""
        return {name: self._heads[name] for name in self._changed}

    def read(self, place: Place, size: int) -> bytes:
        """Return `size` bytes of a file."""
        if place.file not in self._readers:
            self._readers[place.file] = os.open(self._folder / place.file, os.O_RDONLY | os.O_CLOEXEC)
        data = os.pread(self._readers[place.file], size, place.offset)
        if len(data) < size:
            raise OSError(f"{self._folder / place.file} is shorter than it was when it was committed")
        return data

    def write(self, data: bytes) -> Place:
        """Append an entry, and return its place."""
        if self._writer < 0:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._writer = os.open(self._folder / self._new, flags, _FILE_MODE)
        place = Place(self._new, self.written)
        done = 0
        while done < len(data):
            # With an explicit offset: a partial write must not shift later ones.
            done += os.pwrite(self._writer, memoryview(data)[done:], place.offset + done)
        self.written += len(data)
        return place

    def sync(self) -> None:
        """Sync everything written to disk."""
        if self._writer >= 0:
            os.fsync(self._writer)
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def begin_epoch(self) -> None:
        """Start a new epoch: with another file, and no changed heads."""
        self.close()
        self._changed.clear()
        self._new = f"{uuid.uuid4().hex}.entries"
        self.written = 0

    def close(self) -> None:
        """Close all files."""
        for file in (*self._readers.values(), *([self._writer] if self._writer >= 0 else ())):
            os.close(file)
        self._readers.clear()
        self._writer = -1


class FileBucket:
    """One bucket in the files (a `BucketStore`)."""

    def __init__(self, files: StateFiles, name: BucketName) -> None:
        self._files = files
        self._name = name

    @property
    def state(self) -> str:
        """Return the name of the state."""
        return self._name[0]

    def _places(self) -> dict[int, Place]:
        stored = self._files.head(self._name)
        return {} if stored is None else stored.places

    def read_head(self) -> bytes | None:
        """Return the head, or None if none was ever written."""
        stored = self._files.head(self._name)
        return None if stored is None else stored.head

    def write_head(self, head: bytes) -> None:
        """Replace the head."""
        self._files.set_head(self._name, StoredHead(head, self._places()))

    def read_entry(self, number: int, size: int) -> bytes:
        """Return an entry of `size` bytes."""
        return self._files.read(self._places()[number], size)

    def write_entry(self, number: int, data: bytes) -> None:
        """Add an entry."""
        stored = self._files.head(self._name) or StoredHead(b"", {})
        places = {**stored.places, number: self._files.write(data)}
        self._files.set_head(self._name, StoredHead(stored.head, places))

    def remove_entry(self, number: int, size: int) -> None:  # noqa: ARG002 - part of the contract
        """Remove an entry; its file is deleted when no entry in it is needed any more."""
        stored = self._files.head(self._name)
        assert stored is not None
        places = {other: place for other, place in stored.places.items() if other != number}
        self._files.set_head(self._name, StoredHead(stored.head, places))
