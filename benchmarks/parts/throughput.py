"""Throughput out of a filled log, to encoded bytes at the sink, against all baselines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bench.contract import BYTEWAX, BYTEWAX_BY_STEP, PURE, PYSPARK, Baseline, best_of, families
from bench.errors import BenchmarkError, NotRunningError
from bench.figures import Figures
from bench.inputs import Input, input_of
from bench.ours import out_of_the_log
from bench.outputs import Expected
from bench.places import scratch
from bench.setting import Setting
from bench.workloads import WORKLOADS, Workload

OURS = "Wallaroo"
_UNIT = "events/s"
_IN_QUICK_RUNS = {"words-27", "celsius"}


def run(setting: Setting) -> Figures:
    """Measure all workloads."""
    figures = Figures("Throughput out of a filled log")
    for workload in WORKLOADS:
        if not setting.quick or setting.tiny or workload.name in _IN_QUICK_RUNS:
            _Comparison(setting, figures, workload).run()
    return figures


def baselines_of(workload: Workload, setting: Setting) -> list[Baseline]:
    """Return what a workload is compared with, the pure loop first."""
    # With many keys plain PySpark takes its time: it calls a function, with a table, for each.
    others = {"words-27": PYSPARK, "words-5k": PYSPARK[1:], "celsius": [BYTEWAX_BY_STEP]}.get(workload.name, [])
    # With its own settings as well.
    return [PURE, *BYTEWAX, *(each for each in others if not setting.quick or each is not PYSPARK[0])]


class _Comparison:
    """One workload: our program and the baselines, in turn, round after round."""

    def __init__(self, setting: Setting, figures: Figures, workload: Workload) -> None:
        self._setting = setting
        self._figures = figures
        self._workload = workload
        self._baselines = baselines_of(workload, setting)
        self._expected: Expected | None = None

    def run(self) -> None:
        with self._setting.doing(f"{self._workload.title}: making the input ..."):
            events = self._setting.number_of_events(1_000_000, 8_000_000) * self._workload.times
            given = input_of(self._workload, events)
        runners: dict[str, Callable[[Input, Path], float]] = {
            baseline.name: lambda given, folder, baseline=baseline: self._baseline(baseline, given, folder)
            for baseline in self._baselines
        }
        runners[OURS] = self._ours
        names = list(runners)
        for number in range(self._setting.rounds):
            # Each round starts with another one, so that none always comes after the same. The first one starts with
            # the pure loop, whose output all others are compared with.
            for name in names[number % len(names) :] + names[: number % len(names)]:
                self._measure(name, runners[name], given, number)
        self._add_ratios()

    def _measure(self, name: str, runner: Callable[[Input, Path], float], given: Input, number: int) -> None:
        title = f"{self._workload.title}, round {number + 1} of {self._setting.rounds}: {name}"
        with self._setting.doing(f"{title} ..."), scratch() as folder:
            try:
                rate = runner(given, folder)
            except BenchmarkError as error:
                self._figures.notes.append(f"{self._workload.title}: {error}")
                self._setting.say(f"{title}: not measured, {str(error).partition(chr(10))[0]}")
                return
        self._figures.add(self._name(name), rate, _UNIT)
        self._setting.say(f"{title}: {rate:,.0f} {_UNIT}")

    def _baseline(self, baseline: Baseline, given: Input, folder: Path) -> float:
        seconds, output = baseline.run(self._workload.name, given, folder / "output")
        if self._expected is None:
            self._expected = Expected(output, has_keys=self._workload.has_keys)
        self._expected.check(baseline.name, output, in_order=baseline.in_order)
        return given.all_events / seconds

    def _ours(self, given: Input, folder: Path) -> float:
        if self._expected is None:
            raise NotRunningError("there is no output of the pure loop to compare with.")
        caught = out_of_the_log(self._workload, given, folder, self._expected.size)
        self._expected.check(OURS, [caught.output], in_order=True)
        return given.main_events / caught.seconds

    def _name(self, who: str) -> str:
        return f"{self._workload.title}: {who}"

    def _add_ratios(self) -> None:
        ours = self._name(OURS)
        self._figures.add_ratios(f"{ours} / 2 x pure loop", ours, self._name(PURE.name), factor=2)
        for family, members in families(self._baselines).items():
            if best := self._figures.best(self._name(member.name) for member in members):
                self._figures.add_ratios(f"{ours} / {best_of(family, members)}", ours, best)
