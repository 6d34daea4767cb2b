"""Runs a baseline. What a baseline is, as a program, is said in README.md one folder up."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.errors import NotRunningError
from bench.inputs import Input
from bench.places import BASELINES, bench_tool, environment

_PATIENCE = 1800.0


@dataclass(frozen=True)
class Baseline:
    """A program to compare with."""

    name: str
    script: str
    options: tuple[str, ...] = ()
    python: Callable[[], str | None] = lambda: sys.executable
    """Returns the Python to run it with, None where what it needs cannot be installed."""
    in_order: bool = True
    """Whether it keeps the order of the input, for each key where there are keys."""
    family: str = ""
    """Of the baselines of a family only the best counts; the others show what was tried."""

    def run(self, workload: str, given: Input, output: Path) -> tuple[float, list[Path]]:
        """Return the seconds that it took, without its start, and the files that it wrote."""
        python = self.python()
        if python is None:
            raise NotRunningError(f"{self.name} cannot be installed here.")
        output.mkdir()
        command = [python, BASELINES / self.script, workload, given.folder, output, *self.options]
        done = subprocess.run(
            [str(part) for part in command],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
        if done.returncode != 0:
            raise NotRunningError(f"{self.name} failed:\n{done.stderr[-2000:]}")
        seconds = json.loads(done.stdout.splitlines()[-1])["seconds"]
        return seconds, sorted(path for path in output.rglob("*") if path.is_file())


def families(baselines: Iterable[Baseline]) -> dict[str, list[Baseline]]:
    """Return the families of baselines, each with its members."""
    found: dict[str, list[Baseline]] = {}
    for baseline in baselines:
        if baseline.family:
            found.setdefault(baseline.family, []).append(baseline)
    return found


def best_of(family: str, members: Sequence[Baseline]) -> str:
    """Return how a family is called where we are compared with it."""
    return f"{family}'s best" if len(members) > 1 else family


def bench_python() -> str | None:
    """Return the Python that has what we compare with, None where that cannot be installed."""
    return bench_tool("python") if bench_tool("py-spy") else None


PURE = Baseline("pure loop", "pure_python.py")
BYTEWAX = [
    Baseline("Bytewax, one worker", "bytewax_flow.py", (), bench_python, family="Bytewax"),
    Baseline(
        "Bytewax, two threads", "bytewax_flow.py", ("--workers", "2"), bench_python, in_order=False, family="Bytewax"
    ),
    Baseline(
        "Bytewax, two processes",
        "bytewax_flow.py",
        ("--processes", "2"),
        bench_python,
        in_order=False,
        family="Bytewax",
    ),
]
BYTEWAX_BY_STEP = Baseline(
    "Bytewax, two processes, step by step",
    "bytewax_flow.py",
    ("--processes", "2", "--step-by-step"),
    bench_python,
    in_order=False,
    family="Bytewax step by step",
)
PYSPARK = [
    Baseline("plain PySpark", "pyspark_words.py", in_order=False, family="plain PySpark"),
    Baseline(
        "plain PySpark, 2 partitions",
        "pyspark_words.py",
        ("--partitions", "2"),
        in_order=False,
        family="plain PySpark, 2 partitions",
    ),
]
