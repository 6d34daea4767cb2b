"""What an application has of each script and partition: a file, which is written now and then, and the log after it.

The file is written before the log starts a new segment, because it may delete the segments before that at any time.
Each entry of the log has a note with what it changes (`logged_frames`), so the file and the notes after it always say
what is in the log: no more, and no less.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from wallaroo.connectors.extension.logged_frames import Note
from wallaroo.errors import DirectoryError
from wallaroo.files import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

_NAME = "extension"
_MOST_SCRIPTS = 10_000
"""How many scripts are remembered: the number of a script matters only while it may reconnect."""
MOST_PARTITIONS = 1_000_000
"""How many partitions are remembered: none is ever forgotten, and each takes memory, and room in the file."""


class Standing:
    """Says up to where the application has the messages of scripts and of partitions.

    A note counts at once for the messages that follow, and for the file when it is in the log: on a full disk it may
    wait for that.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     standing = Standing(Path(folder))
    ...     standing.add(Note(2, "a script", 2, {"a file": 10}), end=2)
    ...     standing.add(Note(1, "a script", 3, {"a file": 11}), end=3)
    ...     standing.save(2)
    ...     later = Standing(Path(folder))
    >>> standing.number("a script"), standing.sequence("a file"), standing.sequence("another file")
    (3, 11, None)
    >>> later.number("a script"), later.sequence("a file"), later.position
    (2, 10, 2)
    """

    def __init__(self, directory: Path) -> None:
        """Read the file in a folder, if there is one."""
        self._path = directory / _NAME
        self.position = 0
        """The position in the log up to which the file includes its notes."""
        self._numbers: dict[str, int] = {}
        self._sequences: dict[str, int] = {}
        # What is not known to be in the log, with the log's end after it.
        self._new_numbers: dict[str, int] = {}
        self._new_sequences: dict[str, int] = {}
        self._waiting: deque[tuple[int, Note]] = deque()
        self._load()

    def number(self, script: str) -> int:
        """Return the number of the last message that the application has of a script."""
        return self._new_numbers.get(script) or self._numbers.get(script, 0)

    def sequence(self, partition: str) -> int | None:
        """Return the last sequence that the application has of a partition, None if it has none."""
        found = self._new_sequences.get(partition)
        return self._sequences.get(partition) if found is None else found

    @property
    def partitions(self) -> int:
        """Return how many partitions are known, at most."""
        return len(self._sequences) + len(self._new_sequences)

    @property
    def end(self) -> int | None:
        """Return where the log ends when everything that is not known to be in it is; None if there is no such."""
        return self._waiting[-1][0] if self._waiting else None

    def add(self, note: Note, end: int) -> None:
        """Count the messages of a note, after which the log ends at `end`; they may not be in it yet."""
        self._waiting.append((end, note))
        self._new_numbers[note.script] = note.number
        self._new_sequences.update(note.sequences)

    def has_had(self, script: str, number: int) -> None:
        """Count the messages of a script up to `number`, which were all dropped."""
        note = Note(0, script, number, {})
        if self.end is None:
            self._count(note)
        else:
            # They may have been dropped because of messages that are not in the log.
            self.add(note, self.end)

    def settle(self, end: int) -> None:
        """Record that the log ends at `end`."""
        while self._waiting and self._waiting[0][0] <= end:
            self._count(self._waiting.popleft()[1])
        if not self._waiting:
            self._new_numbers.clear()
            self._new_sequences.clear()

    def forget(self, script: str) -> None:
        """Forget a script that does not come back."""
        if not self._waiting:
            self._numbers.pop(script, None)

    def follow(self, notes: Iterable[Note]) -> None:
        """Count notes that are in the log."""
        for note in notes:
            self._count(note)

    def save(self, end: int) -> None:
        """Write the file for a log that ends at `end`, and is on the disk up to there."""
        self.settle(end)
        content = {"position": end, "scripts": self._numbers, "partitions": self._sequences}
        write_atomically(self._path, json.dumps(content, separators=(",", ":")))

    def _count(self, note: Note) -> None:
        # The last script that was heard of comes last.
        self._numbers.pop(note.script, None)
        self._numbers[note.script] = note.number
        if len(self._numbers) > _MOST_SCRIPTS:
            del self._numbers[next(iter(self._numbers))]
        self._sequences.update(note.sequences)

    def _load(self) -> None:
        try:
            content: Any = json.loads(self._path.read_bytes())
            self.position, self._numbers, self._sequences = (
                int(content["position"]),
                dict(content["scripts"]),
                dict(content["partitions"]),
            )
        except FileNotFoundError:
            return
        except (ValueError, LookupError, TypeError) as error:
            raise DirectoryError(
                f"The file {self._path} is damaged: it says which messages of scripts the application has. Restore it "
                "from a copy, or delete it: then messages that scripts repeat may count twice."
            ) from error
