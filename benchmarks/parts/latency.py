"""Latency under an open load: ours, that of Bytewax over sockets, and that of plain PySpark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.contract import bench_python
from bench.errors import BenchmarkError
from bench.figures import Figures
from bench.latency import Load, growth, percentiles
from bench.machida import Machida
from bench.places import BASELINES, environment, scratch
from bench.setting import Setting
from bench.wires import Receiver, Sender

_KEYS = 1_000
_PATIENCE = 300.0
_LOW, _HIGH = 1_000, 50_000
_RATES = (10_000, _HIGH)
_SPARK = "plain PySpark, 2 partitions"
_BYTEWAX = "Bytewax"


def run(setting: Setting) -> Figures:
    """Measure all rates."""
    figures = Figures("Latency under an open load")
    for number in range(setting.rounds):
        title = f"round {number + 1} of {setting.rounds}"
        _Round(setting, figures, title).run()
    _add_ratios(figures)
    return figures


class _Round:
    def __init__(self, setting: Setting, figures: Figures, title: str) -> None:
        self._setting = setting
        self._figures = figures
        self._title = title

    def run(self) -> None:
        seconds = self._setting.seconds
        # Three minutes have several changes of epochs in them.
        self._ours("stateful", (), before=seconds(4, 60), then=seconds(12, 180), rates=self._rates())
        self._ours("two states", ("--two-states",), before=seconds(4, 20), then=seconds(8, 40), rates=())
        if not self._setting.quick:
            self._ours("stateless", ("--stateless",), before=10, then=20, rates=_RATES[-1:])
        for rate in (_LOW, _HIGH):
            self._bytewax(rate)
        self._spark()

    def _rates(self) -> Sequence[int]:
        return _RATES[-1:] if self._setting.quick else _RATES

    def _ours(self, kind: str, arguments: tuple[str, ...], *, before: int, then: int, rates: Sequence[int]) -> None:
        """Measure at 1,000 messages a second from the first moment on, and then at the other rates."""
        with scratch() as folder:
            output = folder / "output"
            with (
                Receiver(output) as receiver,
                Sender() as sender,
                Machida("latency", folder / "home", receiver.address, arguments) as application,
            ):
                load = Load(receiver, sender, output, _KEYS, counted="--stateless" not in arguments)
                address = application.address("messages")
                name = f"{kind}, {_LOW:,}/s"
                latencies = self._measure(name, load, address, _LOW, before + then)
                if latencies is not None:
                    if not arguments:
                        self._add(f"{name}, first minute", latencies[: before * _LOW])
                    self._add(name, latencies[before * _LOW :])
                for rate in rates:
                    name = f"{kind}, {rate:,}/s"
                    latencies = self._measure(name, load, address, rate, self._setting.seconds(8, 20))
                    if latencies is None:
                        return
                    self._add(name, latencies)
                    self._figures.add(f"{name}: last third / second third", growth(latencies), "x")

    def _bytewax(self, rate: int) -> None:
        python = bench_python()
        if python is None:
            self._figures.notes.append(f"{_BYTEWAX} cannot be installed here.")
            return
        command = [python, "-m", "bytewax.run", "bytewax_latency:flow"]
        self._other(f"{_BYTEWAX}, stateful, {rate:,}/s", command, rate, self._setting.seconds(8, 15), in_order=True)

    def _spark(self) -> None:
        command = [sys.executable, "pyspark_latency.py", "--partitions", "2"]
        name = f"{_SPARK}, stateful, {_LOW:,}/s"
        self._other(name, command, _LOW, self._setting.seconds(6, 30), in_order=False)

    def _other(self, name: str, command: list[str], rate: int, seconds: int, *, in_order: bool) -> None:
        """Measure a program that reads and writes lines; the first half, in which it gets warm, does not count."""
        with scratch() as folder:
            output = folder / "output"
            with Receiver(output) as receiver, Sender() as sender:
                load = Load(receiver, sender, output, _KEYS, in_order=in_order, as_lines=True)
                with _job(folder, sender.listen(), receiver.address, command):
                    latencies = self._measure(name, load, None, rate, 2 * seconds)
            if latencies is not None:
                self._add(name, latencies[len(latencies) // 2 :])

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
        shown = ", ".join(f"{percentile} {value:,.1f}" for percentile, value in found.items())
        self._setting.say(f"Latency, {self._title}: {name}: {shown} ms")


@contextmanager
def _job(folder: Path, source: str, sink: str, command: list[str]) -> Iterator[None]:
    """Run a program that connects to these addresses for the time of a `with` block."""
    addresses = {"BENCH_SOURCE": source, "BENCH_SINK": sink}
    with (folder / "job.out").open("w") as said:
        process = subprocess.Popen(
            command,
            cwd=BASELINES,
            env={**environment(), **addresses},
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
    try:
        yield
    finally:
        # With its JVM, which is in the same session: it has no way to be asked to stop.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _add_ratios(figures: Figures) -> None:
    for rate in (_LOW, _HIGH):
        ours, theirs = (f"{who}stateful, {rate:,}/s" for who in ("", f"{_BYTEWAX}, "))
        for percentile in ("p50", "p99"):
            figures.add_ratios(f"{ours}: {percentile} / Bytewax", f"{ours}: {percentile}", f"{theirs}: {percentile}")
    warm = f"stateful, {_LOW:,}/s"
    figures.add_ratios(f"{warm}: p99 of the first minute / p99", f"{warm}, first minute: p99", f"{warm}: p99")
    if (theirs := f"{_SPARK}, {warm}: p50") in figures.by_name:
        figures.add_ratios(f"{warm}: p50 / PySpark's best", f"{warm}: p50", theirs)
