"""The files of Spark's state store: whether all that a version needs is there, and whole.

For each partition and each version there is a file with what changed, `7.changelog`, and now and then a snapshot,
`7.zip`, which names the table files (`SSTs/...`) that belong to it. A version needs the last snapshot up to it and all
changes since. A file that a power failure has cut off, or left empty, is found by its size and its end.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

_LZ4_MAGIC = b"LZ4Block"
_LZ4_END_SIZE = 21
_NUMBERED = re.compile(r"(\d+)\.(changelog|zip)")
_OTHER_FORMAT = re.compile(r"\d+_.+\.(changelog|zip)")


class StateFiles:
    """The state of a checkpoint, in the folders of its stages' partitions."""

    def __init__(self, folder: Path) -> None:
        self._stores = [_Store(path) for path in sorted(folder.glob("[0-9]*/[0-9]*")) if path.is_dir()]

    def damage(self, version: int) -> list[Path]:
        """Return a file of each partition that keeps `version` from being loaded; none if it is whole."""
        found = (store.look(version)[0] for store in self._stores)
        return [path for path in found if path is not None]

    def later_than(self, version: int) -> list[Path]:
        """Return the files of later versions than `version`."""
        return [path for store in self._stores for path in store.later_than(version)]

    def useless_snapshots(self, version: int) -> list[Path]:
        """Return the damaged snapshots that Spark would try to load `version` from, instead of older ones."""
        return [path for store in self._stores for path in store.look(version)[1]]


class _Store:
    """The files of one partition."""

    def __init__(self, path: Path) -> None:
        self._path = path
        names = [each.name for each in path.iterdir()]
        # Spark can be told to name its files in another way; then nothing is known about them.
        self._known = not any(map(_OTHER_FORMAT.fullmatch, names))
        matches = [match for name in names if (match := _NUMBERED.fullmatch(name))]
        self._snapshots = {int(match[1]) for match in matches if match[2] == "zip"}

    def look(self, version: int) -> tuple[Path | None, list[Path]]:
        """Return what is damaged of `version`, if anything, and snapshots that are of no use to load it."""
        useless: list[Path] = []
        broken: Path | None = None
        for snapshot in [*sorted((s for s in self._snapshots if s <= version), reverse=True), 0] if self._known else ():
            damage = self._snapshot_damage(snapshot) if snapshot else None
            if damage:
                useless.append(self._path / f"{snapshot}.zip")
            damage = damage or self._changes_damage(snapshot, version)
            if damage is None:
                return None, useless
            broken = broken or damage
        return broken, useless

    def later_than(self, version: int) -> Iterator[Path]:
        for path in self._path.iterdir():
            if (match := _NUMBERED.fullmatch(path.name)) and int(match[1]) > version:
                yield path

    def _changes_damage(self, snapshot: int, version: int) -> Path | None:
        changes = (self._path / f"{number}.changelog" for number in range(version, snapshot, -1))
        return next((path for path in changes if not _is_whole_changelog(path)), None)

    def _snapshot_damage(self, version: int) -> Path | None:
        path = self._path / f"{version}.zip"
        try:
            with zipfile.ZipFile(path) as archive:
                tables = json.loads(archive.read("metadata").partition(b"\n")[2]).get("sstFiles", [])
        except (zipfile.BadZipFile, KeyError, ValueError):
            return path
        for table in tables:
            file = self._path / "SSTs" / str(table["dfsSstFileName"])
            if not file.exists() or file.stat().st_size != table["sizeBytes"]:
                return file
        return None


def _is_whole_changelog(path: Path) -> bool:
    """Tell whether a file of changes has been written to its end."""
    if not path.exists():
        return False
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        if file.read(len(_LZ4_MAGIC)) != _LZ4_MAGIC:
            return size > 0  # Compressed in another way, as a user may wish.
        file.seek(max(size - _LZ4_END_SIZE, 0))
        end = file.read()
    # The last block is an empty one: the same beginning, a byte for the method, and nothing but zeros.
    return end.startswith(_LZ4_MAGIC) and not any(end[len(_LZ4_MAGIC) + 1 :])
