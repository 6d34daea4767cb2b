"""Latency under an open load, ours and that of plain PySpark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.errors import BenchmarkError
from bench.figures import Figures
from bench.latency import Load, growth, percentiles
from bench.machida import Machida
from bench.places import BASELINES, environment, scratch
from bench.setting import Setting
from bench.wires import Receiver, Sender

_KEYS = 1_000
_PATIENCE = 300.0
_RATES = (200, 10_000, 50_000)
_SPARK = {"plain PySpark": (), "plain PySpark, 2 partitions": ("--partitions", "2")}


def run(setting: Setting) -> Figures:
    """Measure all rates."""
    figures = Figures("Latency under an open load")
    for number in range(setting.rounds):
        title = f"round {number + 1} of {setting.rounds}"
        _Round(setting, figures, title).run(first=number == 0)
    _add_ratios(figures)
    return figures


class _Round:
    def __init__(self, setting: Setting, figures: Figures, title: str) -> None:
        self._setting = setting
        self._figures = figures
        self._title = title

    def run(self, *, first: bool) -> None:
        self._ours("stateful", (), self._setting.pick(8, 60))
        if not self._setting.quick:
            self._ours("stateless", ("--stateless",), 20)
        for name, options in _SPARK.items():
            # With 200 partitions it takes minutes, and is never the better one: it is looked at once.
            if options or (first and not self._setting.quick):
                self._spark(name, options)

    def _ours(self, kind: str, arguments: tuple[str, ...], seconds: int) -> None:
        with scratch() as folder:
            output = folder / "output"
            with (
                Receiver(output) as receiver,
                Sender() as sender,
                Machida("latency", folder / "home", receiver.address, arguments) as application,
            ):
                load = Load(receiver, sender, output, _KEYS, counted=not arguments)
                address = application.address("messages")
                name = f"{kind}, 1,000/s"
                latencies = self._measure(name, load, address, 1_000, 2 * seconds)
                if latencies is not None:
                    half = len(latencies) // 2
                    if not arguments:
                        self._add(f"{name}, first minute", latencies[:half])
                    self._add(name, latencies[half:])
                for rate in _RATES[-1:] if self._setting.quick else _RATES:
                    name = f"{kind}, {rate:,}/s"
                    latencies = self._measure(name, load, address, rate, self._setting.pick(8, 20))
                    if latencies is None:
                        return
                    self._add(name, latencies)
                    self._figures.add(f"{name}: last third / second third", growth(latencies), "x")

    def _spark(self, name: str, options: tuple[str, ...]) -> None:
        # By default a batch takes so long that little is seen in less time than this.
        seconds = 90 if not options else self._setting.pick(6, 60)
        with scratch() as folder:
            output = folder / "output"
            with Receiver(output) as receiver, Sender() as sender:
                load = Load(receiver, sender, output, _KEYS, in_order=False, as_lines=True)
                with _job(folder, sender.listen(), receiver.address, options):
                    latencies = self._measure(f"{name}, stateful, 1,000/s", load, None, 1_000, 2 * seconds)
            if latencies is not None:
                self._add(f"{name}, stateful, 1,000/s", latencies[len(latencies) // 2 :])

    def _measure(
        self, name: str, load: Load, address: tuple[str, int] | None, rate: int, seconds: int
    ) -> array[int] | None:
        title = f"Latency, {self._title}: {name}"
        try:
            with self._setting.doing(f"{title}, {seconds} seconds ..."):
                return load.run(address, rate * seconds, rate, _PATIENCE)
        except BenchmarkError as error:
            self._figures.notes.append(f"{name}: {error}")
            self._setting.say(f"{title}: not measured, {error}")
            return None

    def _add(self, name: str, latencies: array[int]) -> None:
        found = percentiles(latencies)
        for percentile, value in found.items():
            self._figures.add(f"{name}: {percentile}", value, "ms")
        shown = ", ".join(f"{percentile} {value:,.0f}" for percentile, value in found.items())
        self._setting.say(f"Latency, {self._title}: {name}: {shown} ms")


@contextmanager
def _job(folder: Path, source: str, sink: str, options: tuple[str, ...]) -> Iterator[None]:
    """Run plain PySpark for the time of a `with` block."""
    command = [sys.executable, BASELINES / "pyspark_latency.py", source, sink, *options]
    with (folder / "spark.out").open("w") as said:
        process = subprocess.Popen(command, env=environment(), stdout=said, stderr=said, start_new_session=True)
    try:
        yield
    finally:
        # With its JVM, which is in the same session: it has no way to be asked to stop.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _add_ratios(figures: Figures) -> None:
    warm, busy = "stateful, 1,000/s", "stateful, 50,000/s"
    figures.add_ratios(f"{warm}: p99 / p50", f"{warm}: p99", f"{warm}: p50")
    figures.add_ratios(f"{warm}: p99 of the first minute / p99", f"{warm}, first minute: p99", f"{warm}: p99")
    figures.add_ratios(f"{busy}: p50 / p50 at 1,000/s", f"{busy}: p50", f"{warm}: p50")
    theirs = [f"{name}, stateful, 1,000/s: p50" for name in _SPARK]
    if present := [name for name in theirs if name in figures.by_name]:
        best = min(present, key=lambda name: figures.by_name[name].median)
        figures.add_ratios(f"{warm}: p50 / PySpark's best", f"{warm}: p50", best)
