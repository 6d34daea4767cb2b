"""What a run counts, in one place: taken block by block, never message by message.

What the sources count is asked of the ingress (`IngressClient.status`), which has it.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from wallaroo.engine.transport.letters import Letter
from wallaroo.ingress.sequence import SequencedBlock


@dataclass
class Counts:
    """What has happened since the start of a run; a block that is computed again counts once.

    >>> counts = Counts()
    >>> counts.sent("127.0.0.1:7002", messages=3, size=12)
    >>> counts.messages_out
    3
    """

    blocks: int = 0
    commits: int = 0
    restarts: int = 0
    """How often the query was started again after a failure."""
    messages_in: Counter[str] = field(default_factory=Counter)
    """By source."""
    sent_messages: Counter[str] = field(default_factory=Counter)
    """By sink, as are the bytes."""
    sent_bytes: Counter[str] = field(default_factory=Counter)
    dead_letters: Counter[str] = field(default_factory=Counter)
    """By pipeline and step."""
    state_bytes: int = 0
    """What the states take on the disk since the last commit."""
    delay_seconds: float = 0.0
    """How long the last block took, from when it was cut to when it was delivered."""
    longest_delay_seconds: float = 0.0

    @property
    def messages_out(self) -> int:
        """Return how many messages all sinks were sent."""
        return self.sent_messages.total()

    @property
    def errors(self) -> int:
        """Return how many messages became dead letters."""
        return self.dead_letters.total()

    def delivered(self, block: SequencedBlock, sources: list[str]) -> None:
        """Count a block that has been delivered for the first time."""
        self.blocks += 1
        for each in block.ranges:
            self.messages_in[sources[each.source]] += each.end - each.first
        self.delay_seconds = max(time.time_ns() - block.time_ns, 0) / 1e9
        self.longest_delay_seconds = max(self.longest_delay_seconds, self.delay_seconds)

    def sent(self, sink: str, messages: int, size: int) -> None:
        """Count what a sink was sent."""
        self.sent_messages[sink] += messages
        self.sent_bytes[sink] += size

    def failed(self, letters: list[Letter]) -> None:
        """Count dead letters."""
        self.dead_letters.update(f"{letter['pipeline']}: {letter['step']}" for letter in letters)

    def committed(self, state_bytes: int) -> None:
        """Count a commit, after which the states take so much of the disk."""
        self.commits += 1
        self.state_bytes = state_bytes

    def snapshot(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {name: dict(value) if isinstance(value, Counter) else value for name, value in vars(self).items()}
