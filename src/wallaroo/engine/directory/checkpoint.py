"""Puts a checkpoint in order before Spark reads it: a power failure can leave its last files torn or empty.

Spark refuses to start with such a file. Yet what it says can be had again: a batch is computed anew from the log and
from the state as it was before, so the last batch of which everything is whole will do as the place to go on from. What
lies behind it is put aside, never deleted.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from itertools import takewhile
from pathlib import Path

from wallaroo.connectors.base import Notice
from wallaroo.engine.directory.progress import offsets_of
from wallaroo.engine.directory.state_files import StateFiles
from wallaroo.errors import DirectoryError

Forget = Callable[[int], None]
"""Makes the ledger forget a batch and those behind it: which messages they took is not known any more."""

Gone = Callable[[Mapping[str, int]], Path | None]
"""Returns a log that no longer has all messages from the given ones of each source on, None if all have."""


class _Journal:
    """A folder in which Spark writes a file for each batch: a version, and lines of JSON."""

    def __init__(self, folder: Path, lines: int) -> None:
        self._folder = folder
        self._lines = lines
        self.batches = sorted((int(path.name) for path in folder.glob("[0-9]*") if path.name.isdigit()), reverse=True)

    def path(self, batch: int) -> Path:
        return self._folder / str(batch)

    def is_whole(self, batch: int) -> bool:
        if batch not in self.batches:
            return False
        version, *lines = self.path(batch).read_text(errors="replace").splitlines() or [""]
        return version.startswith("v") and len(lines) == self._lines and all(map(_is_json, lines))

    def since(self, batch: int) -> list[Path]:
        return [self.path(later) for later in self.batches if later >= batch]


def mend_checkpoint(checkpoint: Path, aside: Path, forget: Forget, gone: Gone, notice: Notice) -> None:
    """Make sure that Spark can start from `checkpoint`; what keeps it from that goes to the folder `aside`.

    Raises:
        DirectoryError: Too much is damaged, or messages are gone that would be needed again.
    """
    if not checkpoint.exists():
        return
    for leftover in checkpoint.rglob(".*.tmp"):
        leftover.unlink(missing_ok=True)
    _renew_identity(checkpoint / "metadata")
    _Mending(checkpoint, aside, forget, gone, notice).go_back()


class _Mending:
    """Goes back, batch by batch, to the last one from which everything is whole."""

    def __init__(self, checkpoint: Path, aside: Path, forget: Forget, gone: Gone, notice: Notice) -> None:
        self._checkpoint = checkpoint
        self._aside = aside
        self._forget = forget
        self._gone = gone
        self._notice = notice
        self._offsets = _Journal(checkpoint / "offsets", 2)
        self._commits = _Journal(checkpoint / "commits", 1)
        self._state = StateFiles(checkpoint / "state")
        self._damaged: list[Path] = []

    def go_back(self) -> None:
        """Find the batch to go on from, and put aside what lies behind it."""
        latest = self._offsets.batches[0] if self._offsets.batches else -1
        self._damaged += self._commits.since(latest + 1)
        # Spark reads the newest of these, also where the batch behind it was already planned.
        torn = takewhile(lambda batch: not self._commits.is_whole(batch), self._commits.batches)
        self._damaged += map(self._commits.path, torn)
        for batch in self._offsets.batches:
            if damage := self._damage_of_plan(batch):
                self._damaged += damage
                continue
            if batch in self._commits.batches:
                damage = self._damage_of_end(batch)
                if not damage:
                    self._go_on_from(batch, version=batch + 1)
                    return
                self._damaged += damage
            damage = self._state.damage(batch)
            if not damage:
                self._go_on_from(batch, version=batch)
                return
            self._damaged += damage
        if self._offsets.batches and self._offsets.batches[-1] > 0:
            raise self._beyond_repair("nothing whole is left to go back to")
        self._go_on_from(-1, version=0)

    def _damage_of_plan(self, batch: int) -> list[Path]:
        """Return what is damaged of that which says what a batch takes: where it ends, and where the one before did."""
        needed = [each for each in (batch, batch - 1) if each >= 0]
        return [self._offsets.path(each) for each in needed if not self._offsets.is_whole(each)]

    def _damage_of_end(self, batch: int) -> list[Path]:
        """Return what is damaged of that which says that a batch is done, and of the state that it left."""
        return self._state.damage(batch + 1) if self._commits.is_whole(batch) else [self._commits.path(batch)]

    def _go_on_from(self, batch: int, *, version: int) -> None:
        """Have Spark go on from `batch`, with this version of the state: that before the batch, or that behind it."""
        self._damaged += self._state.useless_snapshots(version)
        if not self._damaged:
            return
        if log := self._gone(offsets_of(self._checkpoint, version - 1)):
            raise self._beyond_repair(f"the log {log} no longer has the messages that would have to be processed again")
        following = batch + 1
        forgotten = self._offsets.since(following) or self._commits.since(following)
        if forgotten:
            self._forget(following)
        self._put_aside(self._offsets.since(following) + self._commits.since(version) + self._damaged)
        self._put_aside(self._state.later_than(version))
        names = ", ".join(str(path) for path in dict.fromkeys(self._damaged))
        consequence = (
            f"What was done from batch {following} on is done again, and may be sent again; the state is exact."
            if forgotten
            else "What is missing is computed again; nothing is lost."
        )
        self._notice(f"Damaged, as after a power failure, and put aside in {self._aside}: {names}. {consequence}")

    def _put_aside(self, paths: Iterable[Path]) -> None:
        for path in paths:
            for each in (path, path.with_name(f".{path.name}.crc")):
                if each.exists():
                    target = self._aside / each.relative_to(self._checkpoint)
                    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                    each.replace(target)

    def _beyond_repair(self, why: str) -> DirectoryError:
        return DirectoryError(
            f"The state cannot be read: {self._damaged[0]} is damaged or missing, and {why}.\n"
            f"Restore {self._checkpoint.parent} from a copy, or start afresh with --reset or another --resilience-dir."
        )


def _renew_identity(metadata: Path) -> None:
    """Give the checkpoint another name where its own cannot be read: Spark asks for one, and nothing depends on it."""
    if metadata.exists() and not _is_json(metadata.read_text(errors="replace")):
        metadata.with_name(".metadata.crc").unlink(missing_ok=True)
        metadata.write_text(json.dumps({"id": str(uuid.uuid4())}))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
