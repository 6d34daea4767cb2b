"""Where the partitions of a topic were first read, so that a restart before the first commit starts there again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wallaroo.files import write_atomically

_FILE = "starts.json"


class Starts:
    """The first offsets of the partitions of a topic, in a file in the folder of a source.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> starts = Starts(folder, "words")
    >>> starts.is_first
    True
    >>> starts.add({0: 17})
    >>> Starts(folder, "words").offsets, Starts(folder, "words").is_first, Starts(folder, "lines").recorded_topic
    ({0: 17}, False, 'words')
    """

    def __init__(self, directory: Path, topic: str) -> None:
        self._path = directory / _FILE
        self._topic = topic
        self.is_first = not self._path.exists()
        """Whether nothing was ever read here."""
        stored: Mapping[str, Any] = {} if self.is_first else json.loads(self._path.read_text())
        self.recorded_topic: str = stored.get("topic", topic)
        """The topic whose offsets these are."""
        self.offsets = {int(lane): int(offset) for lane, offset in stored.get("offsets", {}).items()}

    def add(self, offsets: Mapping[int, int]) -> None:
        """Record further ones; they are on the disk when this returns."""
        self.offsets.update(offsets)
        write_atomically(self._path, json.dumps({"topic": self._topic, "offsets": self.offsets}))
        self.is_first = False
