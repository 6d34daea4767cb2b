"""State: live Python objects in the worker, backed by a durable log of their changes.

The keys of a bucket are stored together. In memory a bucket is a dictionary of live objects; on disk it consists of

- a *head*: the version and a list of entries;
- *entries*: each a pickle of the states of some keys. An entry holds *saved* states and, separately, *passing* states,
  which were changed with `save_state` false: these are valid only in this run (after a failure another worker may get
  the bucket and needs them) and are discarded when the application is restarted.

Each write of changes gives the bucket a new version. Live objects belong to the task that has made them: the next one
makes its own from what is committed, also in the same process, because these may be those of an attempt that was not.

Small entries are merged into larger ones, eight at a time, so that a bucket has few entries regardless of its history
and a state is rewritten only a few times however large the bucket is.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from wallaroo.class_changes import upgraded, why_not_loaded
from wallaroo.engine.state_manifest import BucketHead
from wallaroo.engine.transport.serializer import Serializer
from wallaroo.errors import SavedStateError, users_traceback

_MERGE_AT = 8


class BucketStore(Protocol):
    """The durable storage of one bucket."""

    @property
    def state(self) -> str:
        """Return the name of the state the bucket belongs to."""

    def read_head(self) -> bytes | None:
        """Return the head, or None if none was ever written."""

    def write_head(self, head: bytes) -> None:
        """Replace the head."""

    def read_entry(self, number: int, size: int) -> bytes:
        """Return an entry of `size` bytes."""

    def write_entry(self, number: int, data: bytes) -> None:
        """Add an entry."""

    def remove_entry(self, number: int, size: int) -> None:
        """Remove an entry."""


@dataclass
class Entry:
    """What the live side knows about an entry: its number (the version that wrote it), size and keys."""

    number: int
    size: int
    saved: set[Any]
    passing: set[Any]

    @property
    def tier(self) -> int:
        """Return the size class: entries of one class differ by less than a factor of eight."""
        return max(0, self.size.bit_length() - 9) // 3


@dataclass
class Bucket:
    """The live objects of a bucket, up to date as of `version`."""

    version: int = 0
    objects: dict[Any, Any] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    unsaved: set[Any] = field(default_factory=set)
    """Keys whose live object is newer than the last saved state."""


class PackedVersion(NamedTuple):
    """The changes of a new version, with its states serialized: after this only the disk can fail."""

    kept: list[Entry]
    replaced: list[Entry]
    entry: Entry | None
    """The new entry, if any."""
    data: bytes


class StateLog:
    """Opens buckets exactly as they were committed, and saves changes."""

    def __init__(self, serializer: Serializer, run_id: str) -> None:
        self._serializer = serializer
        self._run_id = run_id

    def open(self, store: BucketStore) -> Bucket:
        """Return the bucket as it is in the store, with new objects."""
        head = BucketHead.load(store.read_head())
        bucket = Bucket(head.version)
        bucket.entries = [self._apply(bucket, number, size, store) for number, size in head.entries]
        return bucket

    def _apply(self, bucket: Bucket, number: int, size: int, store: BucketStore) -> Entry:
        """Load the states of an entry into the bucket."""
        saved, passing = self._load_entry(store, number, size)
        bucket.objects.update(saved)
        bucket.unsaved.difference_update(saved)
        bucket.objects.update(passing)
        bucket.unsaved.update(passing)
        return Entry(number, size, set(saved), set(passing))

    def _load_entry(self, store: BucketStore, number: int, size: int) -> tuple[dict[Any, Any], dict[Any, Any]]:
        saved, passing, run_id = pickle.loads(store.read_entry(number, size))
        # States written by this run are already upgraded.
        mine = run_id == self._run_id
        states = self._load_states(store, saved, upgrade=not mine)
        return states, self._load_states(store, passing, upgrade=False) if mine and passing else {}

    def _load_states(self, store: BucketStore, data: bytes, *, upgrade: bool) -> dict[Any, Any]:
        """Return the states; if they cannot be loaded or upgraded, the program has to be changed."""
        try:
            states = self._serializer.load_states(data)
            return upgraded(states) if upgrade else states
        except MemoryError:
            raise
        except (Exception, SystemExit) as error:
            raise SavedStateError(why_not_loaded(store.state, data, error, users_traceback(error))) from error

    def try_loading(self, store: BucketStore) -> None:
        """Load one entry of a bucket, if it has any: the oldest, which a changed program is least likely to load.

        Raises:
            SavedStateError: It cannot be loaded.
        """
        for number, size in BucketHead.load(store.read_head()).entries[:1]:
            self._load_entry(store, number, size)

    def save(self, bucket: Bucket, store: BucketStore, saved: set[Any], touched: set[Any]) -> None:
        """Write a new version: `saved` keys are durable, other `touched` keys are kept for this run only."""
        self.write(bucket, store, self.pack(bucket, store, saved, touched))

    def pack(self, bucket: Bucket, store: BucketStore, saved: set[Any], touched: set[Any]) -> PackedVersion:
        """Return what `write` writes; only this method runs user code, and it does not change the store."""
        bucket.unsaved |= touched
        bucket.unsaved -= saved
        replaced, kept = self._to_merge(bucket.entries, saved, touched - saved)
        return PackedVersion(kept, replaced, *self._pack_entry(bucket, store, saved, touched - saved, replaced))

    @staticmethod
    def write(bucket: Bucket, store: BucketStore, packed: PackedVersion) -> None:
        """Write the packed changes as the new version."""
        if packed.entry is not None:
            store.write_entry(packed.entry.number, packed.data)
        for entry in packed.replaced:
            store.remove_entry(entry.number, entry.size)
        bucket.entries = [*packed.kept, packed.entry] if packed.entry is not None else packed.kept
        bucket.version += 1
        sizes = [(entry.number, entry.size) for entry in bucket.entries]
        store.write_head(BucketHead(bucket.version, sizes).dump())

    def _to_merge(self, entries: list[Entry], saved: set[Any], passing: set[Any]) -> tuple[list[Entry], list[Entry]]:
        """Split entries into those that the new one replaces (the newest) and those that stay."""
        keep = len(entries)
        # An entry whose keys are all rewritten costs nothing to replace.
        while keep and entries[keep - 1].saved <= saved and entries[keep - 1].passing <= passing | saved:
            keep -= 1
        # Merging eight entries of one size class creates one of the next class, which may complete that class in turn.
        while True:
            tier = entries[keep - 1].tier if keep else 0
            row = keep
            while row and entries[row - 1].tier <= tier:
                row -= 1
            if keep - row < _MERGE_AT - 1:
                return entries[keep:], entries[:keep]
            keep = row

    def _pack_entry(
        self, bucket: Bucket, store: BucketStore, saved: set[Any], passing: set[Any], replaced: list[Entry]
    ) -> tuple[Entry | None, bytes]:
        """Return one entry with the newest states of its keys and of the entries it replaces."""
        saved = saved.union(*(entry.saved for entry in replaced))
        passing = passing.union(*(entry.passing for entry in replaced)) & bucket.unsaved
        if not saved and not passing:
            return None, b""
        live = bucket.objects
        behind = saved & bucket.unsaved
        states = {key: live[key] for key in saved - behind}
        if behind:
            # The last saved states are no longer in memory, only in the entries.
            for entry in replaced:
                older = self._load_entry(store, entry.number, entry.size)[0]
                states.update({key: older[key] for key in behind & older.keys()})
        dump = self._serializer.dump_states
        parts = (dump(states), dump({key: live[key] for key in passing}) if passing else b"", self._run_id)
        data = pickle.dumps(parts, pickle.HIGHEST_PROTOCOL)
        return Entry(bucket.version + 1, len(data), set(states), passing), data

    def check(self, key: Any, state: Any) -> None:
        """Raise whatever serializing this state raises."""
        self._serializer.dump_states({key: state})

    def copy_out(self, state: Any) -> bytes:
        """Return a serialized copy of a state."""
        return self._serializer.dump(state)

    def copy_in(self, data: bytes) -> Any:
        """Return the state from a serialized copy."""
        return self._serializer.load(data)

    def committed(self, store: BucketStore) -> dict[Any, Any]:
        """Return fresh copies of the bucket's states as they were last written."""
        return self.open(store).objects


class MemoryStore:
    """A bucket store in memory, for tests and for runs without Spark."""

    def __init__(self, state: str = "") -> None:
        self.state = state
        self.head: bytes | None = None
        self.entries: dict[int, bytes] = {}

    def read_head(self) -> bytes | None:
        """Return the head."""
        return self.head

    def write_head(self, head: bytes) -> None:
        """Replace the head."""
        self.head = head

    def read_entry(self, number: int, size: int) -> bytes:
        """Return an entry."""
        assert len(self.entries[number]) == size
        return self.entries[number]

    def write_entry(self, number: int, data: bytes) -> None:
        """Add an entry."""
        self.entries[number] = data

    def remove_entry(self, number: int, size: int) -> None:
        """Remove an entry."""
        assert len(self.entries[number]) == size
        del self.entries[number]
