"""Shows what the Python processes of an application do all the time: see README.md beside this file, and `--help`.

Not called `profile`: a module of Python's own has that name, and programs started here would find this one instead.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent))

from bench.contract import PURE
from bench.errors import BenchmarkError
from bench.inputs import input_of
from bench.latency import Load, percentiles
from bench.machida import Machida
from bench.ours import out_of_the_log
from bench.outputs import size_of
from bench.places import scratch
from bench.stacks import Samples, sampled
from bench.wires import Receiver, Sender
from bench.workloads import WORKLOADS, workload

_FUNCTIONS = 12
screen = Console(highlight=False)


class _Watch:
    """Observes an application for a while."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.samples: dict[str, Samples] = {}
        self._begin = self._end = 0.0

    @contextmanager
    def __call__(self, application: Machida) -> Iterator[None]:
        with sampled(application, self._folder, self.samples):
            self._begin = time.time()
            yield
            self._end = time.time()

    @property
    def seconds(self) -> float:
        return self._end - self._begin


@click.group()
def main() -> None:
    """Look at one scenario closely, with py-spy."""


@main.command()
@click.option("--workload", "name", type=click.Choice([found.name for found in WORKLOADS]), default="words-27")
@click.option("--events", type=click.IntRange(8), default=5_000_000, show_default=True)
def throughput(name: str, events: int) -> None:
    """Work off a filled log."""
    chosen = workload(name)
    with screen.status("Making the input ..."), scratch() as folder:
        given = input_of(chosen, events)
        _, outputs = PURE.run(name, given, folder / "pure")
        size = size_of(outputs)
    with screen.status("Running ..."), scratch() as folder:
        watch = _Watch(folder)
        caught = out_of_the_log(chosen, given, folder, size, watching=watch)
    screen.print(f"{chosen.title}: {given.main_events / caught.seconds:,.0f} events/s while being watched")
    _show(watch)


@main.command()
@click.option("--rate", type=click.IntRange(1), default=1_000, show_default=True, help="Messages a second.")
@click.option("--seconds", type=click.IntRange(1), default=30, show_default=True)
@click.option("--stateless", is_flag=True, help="Without the state.")
def latency(rate: int, seconds: int, *, stateless: bool) -> None:
    """Answer messages at a steady rate."""
    with screen.status("Running ..."), scratch() as folder:
        watch = _Watch(folder)
        output = folder / "output"
        arguments = ("--stateless",) if stateless else ()
        with (
            Receiver(output) as receiver,
            Sender() as sender,
            Machida("latency", folder / "home", receiver.address, arguments) as application,
        ):
            load = Load(receiver, sender, output, 1_000, counted=not stateless)
            address = application.address("messages")
            load.run(address, seconds * rate, rate, 300)
            with watch(application):
                found = percentiles(load.run(address, seconds * rate, rate, 300))
    shown = ", ".join(f"{name} {value:,.1f}" for name, value in found.items())
    screen.print(f"{rate:,} messages a second: {shown} ms while being watched")
    _show(watch)


def _show(watch: _Watch) -> None:
    for kind, samples in watch.samples.items():
        screen.print(_stacks_table(kind, samples, watch.seconds))


def _stacks_table(kind: str, samples: Samples, seconds: float) -> Table:
    total = sum(samples.groups.values())
    title = f"{kind} ({samples.processes}): {samples.seconds(total):.1f} s busy in {seconds:.1f} s"
    table = Table(title=title, title_justify="left")
    table.add_column("")
    table.add_column("seconds", justify="right")
    table.add_column("%", justify="right")
    for counts in (samples.groups, Counter(dict(samples.functions.most_common(_FUNCTIONS)))):
        for name, number in counts.most_common():
            table.add_row(name, f"{samples.seconds(number):.2f}", f"{100 * number / max(total, 1):.0f}")
        table.add_section()
    return table


if __name__ == "__main__":
    try:
        main()
    except BenchmarkError as error:
        sys.exit(str(error))
