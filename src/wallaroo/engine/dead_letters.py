"""Messages that user code could not handle: kept in a file, counted, and told without flooding the screen."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from wallaroo.connectors.base import Notice

_SUMMARY_SECONDS = 10.0


class DeadLetters:
    """Appends records to a file, one JSON object a line, and reports each kind of error once in full."""

    def __init__(self, path: Path, notice: Notice) -> None:
        self._path = path
        self._notice = notice
        self._kinds: dict[tuple[str, ...], _Repeated] = {}
        self.count = 0

    def add(self, records: list[dict[str, Any]]) -> None:
        """Keep `records`."""
        created = not self._path.exists()
        # What is not Unicode in an error's text is written as JSON's own escape.
        with self._path.open("a", encoding="utf-8", errors="backslashreplace") as file:
            for record in records:
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
        if created:
            self._path.chmod(0o600)
        self.count += len(records)
        for record in records:
            self._report(record)

    def _report(self, record: dict[str, Any]) -> None:
        # The words of an error often name the message; its class and the place it comes from make the kind.
        place = record["traceback"].rpartition(record["error"])[0]
        kind = (record["pipeline"], record["step"], record["error"].partition(":")[0], place)
        where = f"Pipeline {record['pipeline']!r}, step {record['step']!r}"
        repeated = self._kinds.get(kind)
        if repeated is None:
            self._kinds[kind] = _Repeated(where, time.monotonic())
            self._notice(
                f"{where} failed for the message {record['message']}\n{record['traceback']}\n"
                f"The message is kept in {self._path}; the application goes on."
            )
            return
        repeated.unreported += 1
        repeated.error = record["error"]
        if time.monotonic() - repeated.reported_at >= _SUMMARY_SECONDS:
            self._sum_up(repeated)

    def _sum_up(self, repeated: _Repeated) -> None:
        self._notice(f"{repeated.where}: {repeated.error} — {repeated.unreported:,} more times.")
        repeated.reported_at = time.monotonic()
        repeated.unreported = 0

    def close(self) -> None:
        """Tell what has not been told yet."""
        for repeated in self._kinds.values():
            if repeated.unreported:
                self._sum_up(repeated)


class _Repeated:
    def __init__(self, where: str, now: float) -> None:
        self.where = where
        self.reported_at = now
        self.unreported = 0
        self.error = ""
