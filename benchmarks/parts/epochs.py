"""The pause when an epoch changes: what it costs to save states that changed, and whether the others cost anything."""

from __future__ import annotations

import statistics
import time
from array import array
from pathlib import Path

from bench.errors import TooSlowError
from bench.figures import Figures
from bench.latency import Load, percentiles
from bench.machida import Machida
from bench.places import scratch
from bench.setting import Setting
from bench.wire_processes import Schedule
from bench.wires import Receiver, Sender

_PATIENCE = 600.0
_AT_ONCE = 1e6
"""A rate that no engine keeps up with: as fast as it goes."""
_EPOCH_SECONDS = 5
_CHANGED = 10_000
"""How many keys change in an epoch. Each comes once, where there are so many."""
_FULL = (1_000, 100_000, 1_000_000)


def run(setting: Setting) -> Figures:
    """Measure with more and more keys."""
    figures = Figures("The change of epochs")
    sizes = (1_000, 20_000) if setting.tiny else setting.pick(_FULL[:2], _FULL)
    for number in range(setting.rounds):
        for keys in sizes:
            title = f"Epochs, round {number + 1} of {setting.rounds}: {keys:,} keys"
            with setting.doing(f"{title} ..."), scratch() as folder:
                pauses, usual = _measure(keys, setting.pick(3, 6), folder)
            # So many epochs changed that one of them may have met something else.
            figures.add(f"{keys:,} keys: pause", statistics.median(pauses), "ms")
            figures.add(f"{keys:,} keys: longest pause", max(pauses), "ms")
            figures.add(f"{keys:,} keys: p50", usual, "ms")
            setting.say(
                f"{title}: {len(pauses)} pauses of {statistics.median(pauses):,.0f} ms, at most {max(pauses):,.0f}; "
                f"otherwise {usual:,.1f}"
            )
    for keys in sizes[1:-1] or sizes[:1]:
        name = f"{sizes[-1]:,} keys / {keys:,} keys: pause"
        figures.add_ratios(name, f"{sizes[-1]:,} keys: pause", f"{keys:,} keys: pause")
    return figures


def _measure(keys: int, epochs: int, folder: Path) -> tuple[list[float], float]:
    """Return the pauses of a run at a steady rate, and the median latency, in milliseconds."""
    output = folder / "output"
    arguments = ("--time-between-checkpoints", f"{_EPOCH_SECONDS}s")
    with (
        Receiver(output) as receiver,
        Sender() as sender,
        Machida("latency", folder / "home", receiver.address, arguments) as application,
    ):
        load = Load(receiver, sender, output, keys)
        address = application.address("messages")
        with application.commits() as commits:
            load.run(address, keys, _AT_ONCE, _PATIENCE)
            # That all keys are new is in this one.
            _wait_for_one_more(commits)
        with application.commits() as commits:
            rate = _CHANGED / _EPOCH_SECONDS
            schedule = load.start(address, _CHANGED * epochs, rate)
            latencies = load.finish(schedule, _PATIENCE)
    return _pauses(schedule, latencies, commits), percentiles(latencies)["p50"]


def _wait_for_one_more(commits: list[int]) -> None:
    before = len(commits)
    deadline = time.monotonic() + _PATIENCE
    while len(commits) == before:
        if time.monotonic() > deadline:
            raise TooSlowError(f"There was no commit within {_PATIENCE:.0f} seconds.")
        time.sleep(0.05)


def _pauses(schedule: Schedule, latencies: array[int], commits: list[int]) -> list[float]:
    """Return for each commit the longest time that a message around it had to wait, in milliseconds."""
    found = []
    half = _EPOCH_SECONDS * 5e8
    for commit in commits:
        first, end = (int((moment - schedule.start_ns) * schedule.rate / 1e9) for moment in (commit - half, commit))
        # What is behind the commit belongs to the pause if it was due before; a commit at the edge is left out.
        if first >= 0 and end <= schedule.number:
            found.append(max(latencies[first:end]) / 1e6)
    if not found:
        raise TooSlowError("No epoch changed while messages came.")
    return found
