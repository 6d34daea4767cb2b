"""The base of intakes that fetch or generate their messages, instead of waiting for senders to connect."""

from __future__ import annotations

import asyncio
from abc import abstractmethod

from wallaroo.connectors.base import Intake

_LAST_TURNS = 5
"""How many iterations of the event loop a cancelled task gets to add what it has."""


class PollingIntake(Intake):
    """An intake that is one task, which itself checks whether more may be added."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    @property
    def connections(self) -> int:
        """Return 0: there are no senders."""
        return 0

    @abstractmethod
    async def run(self) -> None:
        """Add messages to the source until there are no more, or forever."""

    async def start(self) -> None:
        """Start the task."""
        self._task = asyncio.get_running_loop().create_task(self.run())

    def hold(self) -> None:
        """Do nothing: `run` checks the source."""

    def release(self) -> None:
        """Do nothing: `run` checks the source."""

    async def drain(self) -> None:
        """Add what has already been fetched, and no more."""
        self.close()
        for _ in range(_LAST_TURNS):
            await asyncio.sleep(0)

    def close(self) -> None:
        """Stop."""
        if self._task is not None:
            self._task.cancel()
