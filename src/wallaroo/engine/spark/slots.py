"""The task slots of a cluster: all tasks of all stages of the query have to run at the same time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from wallaroo.errors import SparkStartError

if TYPE_CHECKING:
    from pyspark import SparkContext

_DEFAULT_PROFILE = 0
_POLL_SECONDS = 0.1
_SETTLED_SECONDS = 3.0
"""How long to wait for another executor after the last one has registered, if the number is not known."""
_TIMEOUT_SECONDS = 30.0
"""The same, if there are not enough slots."""
_LONG_TIMEOUT_SECONDS = 120.0
"""The same, if there are none: a busy machine starts executors slowly, and the cluster may be under repair."""


def slots_of(context: SparkContext) -> int:
    """Return how many tasks the registered executors can run at the same time."""
    scheduler = context._jsc.sc().dagScheduler()  # noqa: SLF001 - the only way to it
    return int(scheduler.maxConcurrentTasksForProfile(_DEFAULT_PROFILE))


def free_slots_of(context: SparkContext) -> int:
    """Return how many more tasks they can run."""
    scheduler = context._jsc.sc().dagScheduler()  # noqa: SLF001
    nothing = context._jvm.PythonUtils.toSeq([]).toSet()  # type: ignore[union-attr] # noqa: SLF001
    return slots_of(context) - int(scheduler.outstandingTasksForOtherWork(_DEFAULT_PROFILE, nothing))


def tasks_of_a_stage(slots: Callable[[], int], stages: int, asked: int | None) -> int:
    """Return how many tasks each stage of a query gets, once enough executors have registered.

    `asked` is the number that the user has requested; otherwise all slots of the cluster are used.

    Raises:
        SparkStartError: The cluster does not have enough slots.
    """
    found = wait_for_slots(slots, stages * (asked or 1), more=asked is None)
    fits = found // stages
    if fits < (asked or 1):
        raise SparkStartError(_too_few(found, stages, asked or 1, fits))
    return asked or fits


def tasks_that_fit(slots: Callable[[], int], stages: int, most: int) -> int:
    """Return how many tasks each stage can have, up to `most`, after waiting for restarted executors."""
    return min(wait_for_slots(slots, stages * most) // stages, most)


def wait_for_slots(slots: Callable[[], int], enough: int, *, more: bool = False) -> int:
    """Return the number of slots, once there are enough, or none have been added for a while.

    With `more`, also wait a little for additional slots after that.
    """
    found = 0
    last_came = time.monotonic()
    while True:
        if (now := slots()) > found:
            last_came = time.monotonic()
        found = now
        if found >= enough and not more:
            return found
        if time.monotonic() - last_came > _timeout(found, enough):
            return found
        time.sleep(_POLL_SECONDS)


def _timeout(found: int, enough: int) -> float:
    if found >= enough:
        return _SETTLED_SECONDS
    return _TIMEOUT_SECONDS if found else _LONG_TIMEOUT_SECONDS


def _too_few(found: int, stages: int, tasks: int, fits: int) -> str:
    """Return the message with how many cores are needed, how many there are, and what to do."""
    each = f"{stages} stages, each" if stages > 1 else "one stage"
    workers = f"{tasks} workers" if tasks > 1 else "1 worker"
    way_out = f"start with --worker-count {fits}" if fits else "stop what else runs there"
    return (
        f"The cluster has too few cores: this application needs {stages * tasks} of them at the same time ({each} with "
        f"{workers}), and {found} {'is' if found == 1 else 'are'} available to it. Give the cluster more, or {way_out}."
    )
