"""Where the partitions of a topic were first read, so that a restart before the first commit starts there again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from wallaroo.files import write_atomically

_FILE = "starts.json"


class Starts:
    """The first offsets of partitions, in a file in the folder of a source.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> starts = Starts(folder)
    >>> starts.is_first
    True
    >>> starts.add({0: 17})
    >>> Starts(folder).offsets, Starts(folder).is_first
    ({0: 17}, False)
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / _FILE
        self.is_first = not self._path.exists()
        """Whether nothing was ever read of the topic."""
        stored: Mapping[str, int] = {} if self.is_first else json.loads(self._path.read_text())
        self.offsets = {int(lane): offset for lane, offset in stored.items()}

    def add(self, offsets: Mapping[int, int]) -> None:
        """Record further ones; they are on the disk when this returns."""
        self.offsets.update(offsets)
        write_atomically(self._path, json.dumps(self.offsets))
        self.is_first = False
