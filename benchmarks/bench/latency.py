"""Messages at a steady rate, and how long after it was due each of them was answered.

The load is open: a message is due when the schedule says, however long the answers to others take, and its latency
counts from then on, also if it was sent late. So a program that stalls cannot hide it (no coordinated omission).
"""

from __future__ import annotations

import time
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from bench.errors import DifferentOutputError
from bench.wire_processes import Arrivals, Schedule
from bench.wires import Receiver, Sender

PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
_NS_TO_PREPARE_A_MESSAGE = 3_000
_SOON = 1_000_000_000


@dataclass
class Load:
    """One program under load: schedules one after the other, each answered completely before the next one begins."""

    receiver: Receiver
    sender: Sender
    output: Path
    """Where the receiver writes."""
    keys: int
    counted: bool = True
    """Whether answers have the count of their key; otherwise they have 0."""
    in_order: bool = True
    """Whether the program keeps the order of messages with the same key."""
    as_lines: bool = False
    sent: int = 0
    begun_at: int = 0
    """How many bytes had come when the last schedule was begun."""

    def run(self, address: tuple[str, int] | None, number: int, rate: float, patience: float) -> array[int]:
        """Send so many messages at a rate; return the latency of each, in ns."""
        return self.finish(self.start(address, number, rate), patience)

    def start(self, address: tuple[str, int] | None, number: int, rate: float) -> Schedule:
        """Begin to send so many messages at a rate, without waiting for it."""
        self.sender.connect(address)
        self.begun_at = self.receiver.total
        start = time.monotonic_ns() + 200_000_000 + number * _NS_TO_PREPARE_A_MESSAGE
        schedule = Schedule(number, rate, self.keys, self.sent, start, self.as_lines)
        self.sender.start_schedule(schedule)
        return schedule

    def finish(self, schedule: Schedule, patience: float) -> array[int]:
        """Wait for the answers to what was begun; return the latency of each message, in ns."""
        before, number = self.begun_at, schedule.number
        end = before + sum(self._answer_size(schedule, index) for index in range(number))
        self.receiver.wait_for(end, number / schedule.rate + patience)
        self.sender.finish()
        self.sent += number
        with self.output.open("rb") as file:
            file.seek(before)
            answers = file.read(end - before).splitlines()
        return self._latencies(schedule, answers, before, self.receiver.arrivals())

    def _count(self, schedule: Schedule, index: int) -> int:
        return schedule.count(index) if self.counted else 0

    def _answer_size(self, schedule: Schedule, index: int) -> int:
        return len(b"k%d %d %d\n" % (schedule.key(index), self._count(schedule, index), schedule.due(index)))

    def _latencies(self, schedule: Schedule, answers: list[bytes], position: int, arrivals: Arrivals) -> array[int]:
        """Match answers with messages: each message has one answer, and each answer is the right one."""
        latencies = array("q", bytes(8 * schedule.number))
        counts: Counter[tuple[int, int]] = Counter()
        last: dict[int, int] = {}
        block = 0
        for answer in answers:
            position += len(answer) + 1
            while arrivals.totals[block] < position:
                block += 1
            key, count, due = int(answer[1 : answer.index(b" ")]), *map(int, answer.split(b" ")[1:])
            index = schedule.index(due)
            if not 0 <= index < schedule.number or latencies[index] or key != schedule.key(index):
                raise DifferentOutputError(f"An answer that nobody asked for: {answer!r}")
            if self.in_order and (count != self._count(schedule, index) or index < last.get(key, -1)):
                raise DifferentOutputError(f"An answer with another count, or out of order: {answer!r}")
            if not self.in_order:
                counts[key, count] += 1
                counts[key, self._count(schedule, index)] -= 1
            last[key] = index
            latencies[index] = arrivals.times[block] - due
        if len(answers) != schedule.number or any(counts.values()):
            raise DifferentOutputError(f"{len(answers):,} answers to {schedule.number:,} messages, or other counts.")
        return latencies


def percentiles(latencies: Sequence[int]) -> dict[str, float]:
    """Return the percentiles, in milliseconds.

    >>> percentiles([5_000_000] * 99 + [80_000_000])
    {'p50': 5.0, 'p90': 5.0, 'p99': 80.0, 'p99.9': 80.0}
    """
    ordered = sorted(latencies)
    return {name: ordered[min(int(part * len(ordered)), len(ordered) - 1)] / 1e6 for name, part in PERCENTILES.items()}


def growth(latencies: Sequence[int]) -> float:
    """Return how much longer the messages of the last third waited than those of the second, at the median.

    What waits is what has not been answered: where a backlog grows, so does this.
    """
    third = len(latencies) // 3
    middle, end = (sorted(latencies[part * third : (part + 1) * third])[third // 2] for part in (1, 2))
    return end / middle


def silence(arrivals: Arrivals, since: int) -> int:
    """Return how long after a moment the longest silence ended that began at it, or soon after it; in ns.

    >>> silence(Arrivals(array("q", [5, 9, 11, 3_000, 3_005]), array("q", range(5))), 8)
    2992
    """
    times = [since, *(moment for moment in arrivals.times if moment > since)]
    gaps = [(later - moment, later) for moment, later in pairwise(times) if moment - since < _SOON]
    return max(gaps)[1] - since
