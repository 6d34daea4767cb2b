"""A source that generates its own messages: a user's generator, whose values are appended to the log.

After a restart it resumes where it stopped: a file beside the log has the last value and the number of messages.
"""

from __future__ import annotations

import asyncio
import pickle
import time
from typing import Any

from wallaroo.class_changes import loads
from wallaroo.connectors.base import SourceLog
from wallaroo.connectors.polling_intake import PollingIntake
from wallaroo.interfaces import GeneratorLike, MessageGenerator
from wallaroo.introspection import instance_of
from wallaroo.notices import Notice

_VALUES_AT_ONCE = 1000
_SECONDS_AT_ONCE = 0.02
_BACKLOG_BYTES = 4 << 20
"""How far a generator runs ahead of the engine: more would only fill the disk."""


class Generator(PollingIntake):
    """Generates values with `initial_value()` and `apply(value)` until one is None."""

    def __init__(self, target: GeneratorLike, log: SourceLog, notice: Notice) -> None:
        super().__init__()
        self._generator: MessageGenerator = instance_of(target)
        self._log = log
        self._place = log.directory / "generator"
        self._notice = notice

    async def run(self) -> None:
        """Generate values as fast as they are processed."""
        try:
            value = await asyncio.to_thread(self._first)
            while value is not None:
                value = await self._continue_from(value)
        except Exception as error:  # noqa: BLE001 - user code
            self._notice(
                f"The generator of {self._log.name!r} failed with {type(error).__name__}: {error}. "
                "It generates no more values; the application continues with those it has generated."
            )

    async def _continue_from(self, value: Any) -> Any:
        """Append `value` and some that follow it to the log, and return the next one."""
        made = [value]
        try:
            # In a thread: user code may be slow, and other sources must not wait for it.
            return await asyncio.to_thread(self._some, made)
        finally:
            self._log.received([pickle.dumps(each, pickle.HIGHEST_PROTOCOL) for each in made])
            if not self._log.held_back:
                self._remember(made[-1])
            while self._log.backlog_bytes > _BACKLOG_BYTES or self._log.held_back:  # noqa: ASYNC110
                await asyncio.sleep(_SECONDS_AT_ONCE)  # There is no notification; polling is cheap.

    def _some(self, made: list[Any]) -> Any:
        """Add values to `made` for a short time, and return the next one."""
        deadline = time.monotonic() + _SECONDS_AT_ONCE
        value = self._generator.apply(made[-1])
        while value is not None and len(made) < _VALUES_AT_ONCE and time.monotonic() < deadline:
            made.append(value)
            value = self._generator.apply(value)
        return value

    def _first(self) -> Any:
        return self._resumed() if self._log.end else self._generator.initial_value()

    def _remember(self, last: Any) -> None:
        new = self._place.with_suffix(".new")
        new.write_bytes(pickle.dumps((self._log.end, last), pickle.HIGHEST_PROTOCOL))
        new.replace(self._place)

    def _resumed(self) -> Any:
        """Return the value after the last one in the log."""
        if self._place.exists():
            known, value = loads(self._place.read_bytes())
        else:
            known, value = 1, self._generator.initial_value()
        # The file is written after the log, so it can be behind, but never ahead.
        for _ in range(self._log.end - known + 1):
            if value is None:
                return None
            value = self._generator.apply(value)
        return value
