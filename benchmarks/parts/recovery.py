"""How long it takes until answers come again: after a killed worker, a killed JVM, and a kill of everything."""

from __future__ import annotations

import time
from pathlib import Path

import psutil

from bench.errors import BenchmarkError
from bench.figures import Figures
from bench.latency import Load, silence
from bench.machida import Machida
from bench.places import scratch
from bench.setting import Setting
from bench.wires import Receiver, Sender

_PATIENCE = 300.0
_KEYS = 1_000
_RATE = 1_000
_HIGH_RATE = 50_000
_AT_ONCE = 1e6
_LONG_EPOCH = ("--time-between-checkpoints", "10min")
_START = "start"


def run(setting: Setting) -> Figures:
    """Kill parts of an application, and start it again."""
    figures = Figures("Recovery")
    for number in range(setting.rounds):
        _Round(setting, figures, f"Recovery, round {number + 1} of {setting.rounds}").run()
    return figures


class _Round:
    def __init__(self, setting: Setting, figures: Figures, title: str) -> None:
        self._setting = setting
        self._figures = figures
        self._title = title

    def run(self) -> None:
        for name, measure in {
            "killed worker and JVM": self._kill_parts,
            "kill in a long epoch": self._kill_all,
        }.items():
            try:
                with self._setting.doing(f"{self._title}: {name} ..."), scratch() as folder:
                    measure(folder)
            except BenchmarkError as error:
                self._figures.notes.append(f"{name}: {error}")
                self._setting.say(f"{self._title}: {name}: not measured, {error}")

    def _add(self, name: str, seconds: float) -> None:
        self._figures.add(name, seconds, "s")
        self._setting.say(f"{self._title}: {name}: {seconds:.2f} s")

    def _kill_parts(self, folder: Path) -> None:
        """Kill a worker and then the JVM under load; the run has to continue, and every answer has to be right."""
        output = folder / "output"
        with (
            Receiver(output) as receiver,
            Sender() as sender,
            Machida("latency", folder / "home", receiver.address) as application,
        ):
            self._add(_START, application.ready_seconds)
            load = Load(receiver, sender, output, _KEYS)
            address = application.address("messages")
            load.run(address, self._setting.seconds(3, 20) * _RATE, _RATE, _PATIENCE)  # to be warm
            busiest = max(application.workers(), key=lambda worker: sum(worker.cpu_times()[:2]))
            self._add("killed worker: to the first new output", self._kill(load, address, busiest))
            seconds = self._kill(load, address, application.jvm())
            self._add("killed JVM: to the first new output", seconds)
            self._add("killed JVM: to the first new output, beyond a start", seconds - application.ready_seconds)

    def _kill(self, load: Load, address: tuple[str, int], victim: psutil.Process) -> float:
        """Kill a process in the middle of a load; return the seconds until there was an output again."""
        seconds = self._setting.seconds(6, 15)
        schedule = load.start(address, seconds * _RATE, _RATE)
        time.sleep(max(schedule.due(schedule.number // 2) - time.monotonic_ns(), 0) / 1e9)
        killed = time.monotonic_ns()
        victim.kill()
        load.finish(schedule, _PATIENCE)
        return silence(load.receiver.arrivals(), killed) / 1e9

    def _kill_all(self, folder: Path) -> None:
        """Kill everything when much has been answered and nothing of it committed, and start again."""
        output = folder / "output"
        with Receiver(output) as receiver, Sender() as sender:
            load = Load(receiver, sender, output, _KEYS)
            with Machida("latency", folder / "home", receiver.address, _LONG_EPOCH) as application:
                number = self._setting.seconds(6, 30) * _HIGH_RATE
                load.run(application.address("messages"), number, _HIGH_RATE, _PATIENCE)
                time.sleep(1)  # so that what was delivered has been noted
                application.kill()
            with Machida("latency", folder / "home", receiver.address, _LONG_EPOCH) as application:
                load.run(application.address("messages"), _KEYS, _AT_ONCE, _PATIENCE)
                answered = (receiver.progress()[1] - application.started_ns) / 1e9
                self._add("kill in a long epoch: restart", application.ready_seconds)
                self._add("kill in a long epoch: restart, to the first new answers", answered)
