"""Runs the benchmarks: see README.md beside this file, and `--help`."""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from pathlib import Path

import click
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parent))

from bench.chart import draw
from bench.errors import BenchmarkError
from bench.figures import Figures
from bench.places import BUILD, RESULTS, machine
from bench.report import show
from bench.setting import Setting

PARTS = ("throughput", "sockets", "latency", "epochs", "recovery", "growth", "startup", "kafka", "extensions")


@click.command()
@click.option(
    "--only", multiple=True, type=click.Choice(PARTS), help="Run this part only; may be repeated. Default: all."
)
@click.option("--quick", is_flag=True, help="Small inputs, one round: ten minutes. Also with QUICK=1.")
@click.option("--tiny", is_flag=True, hidden=True, help="Only see that everything works, in a few seconds each.")
@click.option("--rounds", type=click.IntRange(1), help="How often everything is measured. Default: 3, or 1 if quick.")
@click.option("--events", type=click.IntRange(8), help="Events in a throughput input, instead of the usual number.")
@click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where figures and chart are written. Default: benchmarks/results, or build/bench-quick if quick.",
)
def main(  # noqa: PLR0913 - an option each
    only: tuple[str, ...], rounds: int | None, events: int | None, results: Path | None, *, quick: bool, tiny: bool
) -> None:
    """Compare this project with what people would pick instead."""
    quick = quick or tiny or bool(os.environ.get("QUICK"))
    # So that whatever was started is stopped as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Stopped by a signal."))
    # What is published is what a long run found out.
    results = results or (BUILD / ("bench-tiny" if tiny else "bench-quick") if quick else RESULTS)
    setting = Setting(quick, rounds or (1 if quick else 3), tiny, events)
    measured = []
    for part in only or PARTS:
        try:
            figures: Figures = import_module(f"parts.{part}").run(setting)
        except BenchmarkError as error:
            setting.say(f"[red]{part}: {error}[/red]")
            continue
        figures.write(results / f"{part}.json", {"machine": machine(), "quick": quick, "rounds": setting.rounds})
        measured.append(figures)
    show(measured, Console(highlight=False))
    if chart := draw(results):
        setting.say(f"Figures and chart are in {chart.parent}.")


if __name__ == "__main__":
    main()
