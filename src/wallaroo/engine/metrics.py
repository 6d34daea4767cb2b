"""The metrics of a run, in one place: updated once per block, never per message.

The metrics of the sources come from the ingress (`IngressClient.status`), and those of the states from the commits;
both are added when a snapshot is taken.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NotRequired, TypedDict

from wallaroo.engine.state_manifest import StateSize
from wallaroo.engine.transport.dead_letter_record import Letter
from wallaroo.ingress.block_sequence import SequencedBlock

if TYPE_CHECKING:
    from wallaroo.ingress.source import SourceStatus

_DELAY_CLASSES = 18
"""From one millisecond to two minutes, each limit twice the previous one; a class without a limit follows."""


class SourceCounts(TypedDict):
    """The metrics of one source. All but the first are missing if the ingress does not answer."""

    messages: int
    """How many messages are in the blocks that have been delivered."""
    accepted_messages: NotRequired[int]
    """Since the start of the ingress process, which may be later than that of the run; likewise the bytes."""
    accepted_bytes: NotRequired[int]
    backlog_bytes: NotRequired[int]
    """The bytes of accepted messages whose outputs have not been delivered."""
    log_bytes: NotRequired[int]
    """The size of the log on disk."""
    connections: NotRequired[int]


class SinkCounts(TypedDict):
    """What was sent to one sink."""

    messages: int
    bytes: int


class StateCounts(TypedDict):
    """The size of one state as of the last commit."""

    buckets: int
    entries: int
    bytes: int


class DelayCounts(TypedDict):
    """The latency of blocks with messages, from when they were cut to when they were delivered."""

    last_seconds: float
    longest_seconds: float
    sum_seconds: float
    blocks: list[tuple[float | None, int]]
    """A histogram: the upper limit of each class in seconds, and its number of blocks; the last class has no limit."""


class Snapshot(TypedDict):
    """All metrics, as plain data that can be written as JSON."""

    seconds: float
    """The time since the start of the run."""
    blocks: int
    """How many have been delivered."""
    commits: int
    restarts: int
    """How often the query was restarted after a failure."""
    delays: DelayCounts
    sources: dict[str, SourceCounts]
    sinks: dict[str, SinkCounts]
    dead_letters: dict[str, int]
    """By pipeline and step."""
    states: dict[str, StateCounts]
    state_files_bytes: int
    """The size of the states on disk, including replaced entries in files that are still in use."""


@dataclass
class Delays:
    """The latencies of blocks: the last, the longest, and a histogram.

    >>> delays = Delays()
    >>> for seconds in (0.0002, 0.001, 0.003, 1000):
    ...     delays.add(seconds)
    >>> [each for each in delays.as_data()["blocks"] if each[1]]
    [(0.001, 2), (0.004, 1), (None, 1)]
    """

    last: float = 0.0
    longest: float = 0.0
    total: float = 0.0
    _classes: list[int] = field(default_factory=lambda: [0] * (_DELAY_CLASSES + 1))

    def add(self, seconds: float) -> None:
        """Count a block."""
        self.last = seconds
        self.longest = max(self.longest, seconds)
        self.total += seconds
        # A power of two belongs to the class whose upper limit it is.
        whole = math.ceil(seconds * 1000)
        self._classes[min(max(whole - 1, 0).bit_length(), _DELAY_CLASSES)] += 1

    def as_data(self) -> DelayCounts:
        """Return it as plain data."""
        limits = [*(2**power / 1000 for power in range(_DELAY_CLASSES)), None]
        return DelayCounts(
            last_seconds=self.last,
            longest_seconds=self.longest,
            sum_seconds=self.total,
            blocks=list(zip(limits, self._classes, strict=True)),
        )


@dataclass
class Metrics:
    """The metrics since the start of a run; a block that is computed again counts once. Thread-safe.

    >>> counts = Metrics()
    >>> counts.sent("127.0.0.1:7002", messages=3, size=12)
    >>> counts.messages_out
    3
    """

    blocks: int = 0
    commits: int = 0
    restarts: int = 0
    """How often the query was restarted after a failure."""
    delays: Delays = field(default_factory=Delays)
    messages_in: Counter[str] = field(default_factory=Counter)
    """By source."""
    sent_messages: Counter[str] = field(default_factory=Counter)
    """By sink, like the bytes."""
    sent_bytes: Counter[str] = field(default_factory=Counter)
    dead_letters: Counter[str] = field(default_factory=Counter)
    """By pipeline and step."""
    _began: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def messages_out(self) -> int:
        """Return how many messages were sent to all sinks."""
        return self.sent_messages.total()

    @property
    def errors(self) -> int:
        """Return how many messages became dead letters."""
        return self.dead_letters.total()

    def delivered(self, block: SequencedBlock, sources: list[str]) -> None:
        """Count a block that has been delivered for the first time."""
        with self._lock:
            self.blocks += 1
            for each in block.ranges:
                self.messages_in[sources[each.source]] += each.end - each.first
            if block.ranges:
                # Blocks without messages are heartbeats, and the first one includes the loading of classes.
                self.delays.add(max(time.time_ns() - block.time_ns, 0) / 1e9)

    def sent(self, sink: str, messages: int, size: int) -> None:
        """Count what was sent to a sink."""
        with self._lock:
            self.sent_messages[sink] += messages
            self.sent_bytes[sink] += size

    def failed(self, letters: list[Letter]) -> None:
        """Count dead letters."""
        with self._lock:
            self.dead_letters.update(f"{letter['pipeline']}: {letter['step']}" for letter in letters)

    def committed(self) -> None:
        """Count a commit."""
        with self._lock:
            self.commits += 1

    def restarted(self) -> None:
        """Count a restart of the query after a failure."""
        with self._lock:
            self.restarts += 1

    def snapshot(
        self,
        sources: Mapping[str, SourceStatus] | None = None,
        states: Mapping[str, StateSize] | None = None,
        state_files_bytes: int = 0,
    ) -> Snapshot:
        """Return all metrics, with those of the sources from the ingress, and of the states from the commits."""
        asked = sources or {}
        with self._lock:
            return Snapshot(
                seconds=time.monotonic() - self._began,
                blocks=self.blocks,
                commits=self.commits,
                restarts=self.restarts,
                delays=self.delays.as_data(),
                sources={
                    name: _source_counts(self.messages_in[name], asked.get(name))
                    for name in sorted({*self.messages_in, *asked})
                },
                sinks={
                    name: SinkCounts(messages=messages, bytes=self.sent_bytes[name])
                    for name, messages in self.sent_messages.items()
                },
                dead_letters=dict(self.dead_letters),
                states={
                    name: StateCounts(buckets=size.buckets, entries=size.entries, bytes=size.bytes)
                    for name, size in (states or {}).items()
                },
                state_files_bytes=state_files_bytes,
            )


def _source_counts(delivered: int, status: SourceStatus | None) -> SourceCounts:
    if status is None:
        return SourceCounts(messages=delivered)
    return SourceCounts(
        messages=delivered,
        accepted_messages=status["total_messages"],
        accepted_bytes=status["total_bytes"],
        backlog_bytes=status["backlog_bytes"],
        log_bytes=status["log_bytes"],
        connections=status["connections"],
    )
