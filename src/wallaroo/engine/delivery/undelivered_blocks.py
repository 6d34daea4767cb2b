"""The blocks that sinks have taken and not delivered yet."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable
from typing import NamedTuple


class Delivery(NamedTuple):
    """A block that a sink has taken."""

    sink: str
    block: int
    messages: int
    size: int


class UndeliveredBlocks:
    """Tracks how far each sink is; each takes blocks in order, and delivers them in order.

    A sink reports from any thread. What it has reported counts when `settle` is called. Thread-safe.

    >>> reports = []
    >>> undelivered = UndeliveredBlocks(wake=lambda: None)
    >>> for number in (3, 4):
    ...     reports.append(undelivered.reporter("a sink"))
    ...     undelivered.add(Delivery("a sink", number, messages=1, size=10))
    >>> undelivered.first, undelivered.has("a sink", 4), undelivered.has("a sink", 5)
    (3, True, False)
    >>> reports[0](None)
    >>> undelivered.settle(print)
    Delivery(sink='a sink', block=3, messages=1, size=10)
    >>> undelivered.first
    4
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever there is something to settle."""
        self._wake = wake
        self._lock = threading.Lock()
        self._last: dict[str, int] = {}
        self._of_sink: defaultdict[str, deque[Delivery]] = defaultdict(deque)
        self._error: BaseException | None = None
        """The error of the first sink that has stopped."""
        self._reports: deque[tuple[str, BaseException | Callable[[], None] | None]] = deque()
        """What sinks have reported and is not settled yet.

        A report is about the sink's first block: that it has ended, with or without an error, or how to record how much
        of it has been delivered.
        """

    @property
    def first(self) -> int | None:
        """Return the first block that a sink has taken and not delivered; None if there is none."""
        with self._lock:
            return min((waiting[0].block for waiting in self._of_sink.values() if waiting), default=None)

    @property
    def is_to_settle(self) -> bool:
        """Return whether sinks have reported something."""
        return bool(self._reports)

    def has(self, sink: str, block: int) -> bool:
        """Return whether a sink has taken this block, in whichever attempt, and may have delivered it."""
        return self._last.get(sink, -1) >= block

    def reporter(self, sink: str) -> Callable[[BaseException | None], None]:
        """Return how a sink reports the end of a delivery: with None, or with the error that stops it."""

        def report(error: BaseException | None) -> None:
            self._reports.append((sink, error))
            self._wake()

        return report

    def progressed(self, sink: str, record: Callable[[], None]) -> None:
        """Have `record` called, which records how far a sink is, after what it has delivered before is recorded."""
        self._reports.append((sink, record))
        self._wake()

    def add(self, delivery: Delivery) -> None:
        """Count a block that a sink has taken; it may have reported the end of the delivery already."""
        with self._lock:
            self._last[delivery.sink] = delivery.block
            self._of_sink[delivery.sink].append(delivery)

    def settle(self, record: Callable[[Delivery], None]) -> None:
        """Record every delivery that has ended; then raise the error of a sink that has stopped.

        What could not be recorded, because the disk is full, remains to be settled.
        """
        with self._lock:
            while self._reports:
                sink, report = self._reports[0]
                waiting = self._of_sink[sink]
                if isinstance(report, BaseException):
                    self._error = self._error or report
                elif report is not None:
                    report()
                elif waiting:
                    record(waiting[0])
                    waiting.popleft()
                else:
                    break  # It is about to be added.
                self._reports.popleft()
            if self._error is not None:
                raise self._error
