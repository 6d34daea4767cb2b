"""What Python processes do all the time: samples of their stacks, taken by py-spy."""

from __future__ import annotations

import re
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bench.errors import NotRunningError
from bench.machida import Machida
from bench.places import bench_tool

_RATE = 100

_KINDS = {
    r"wallaroo\.ingress": "ingress",
    r"worker_daemon pyspark\.worker$": "Python workers",
    r"machida": "driver",
}
"""By what stands in their command lines; the first that fits."""

_GROUPS = {
    r"benchmarks/apps/": "the application's own functions",
    r"wallaroo/ingress/log_(reader|cursor|slices|format)": "reading the log",
    r"wallaroo/ingress/(sequence|sequencer)": "cutting blocks",
    r"wallaroo/ingress/": "accepting and writing the log",
    r"wallaroo/engine/(transport/(chunks|packing|shares|buckets)|stages/outbox)": "collecting and packing messages",
    r"wallaroo/engine/stages/state(_store)?\.": "keeping states",
    r"wallaroo/engine/stages/(tasks|block_worker|messages|first_stage|steps|stateful)": "running steps",
    r"wallaroo/engine/transport/hand_in": "handing in outputs",
    r"wallaroo/(engine/delivery/|connectors/)": "sending",
    r"wallaroo/": "everything else of ours",
    r"(pyarrow|pandas|numpy)/": "Arrow",
    r"(pyspark|py4j)": "Spark's Python side",
}
"""To what a stack belongs: the innermost of its functions whose file fits one of these."""


_WAITING = re.compile(r"(Selector\.select|Condition\.wait|SocketIO\.readinto|poll|_worker|manager|worker) ")
"""Functions in which a process waits for others; py-spy leaves out what it takes for idle, but not all of it."""


@dataclass
class Samples:
    """The samples of the processes of one kind."""

    processes: int = 0
    groups: Counter[str] = field(default_factory=Counter)
    functions: Counter[str] = field(default_factory=Counter)

    def add(self, stack: list[str], number: int) -> None:
        """Add a stack, outermost function first."""
        self.groups[_group(stack)] += number
        self.functions[_short(stack[-1])] += number

    def seconds(self, samples: int) -> float:
        """Return the processor time that so many samples stand for."""
        return samples / _RATE


def _group(stack: list[str]) -> str:
    if _WAITING.search(stack[-1]):
        return "waiting for others"
    for frame in reversed(stack):
        for pattern, group in _GROUPS.items():
            if re.search(pattern, frame):
                return group
    return "the rest"


def _short(frame: str) -> str:
    """Return a function without the folders in front of its file.

    >>> _short("read (/usr/lib/python3/site-packages/wallaroo/engine/log.py:12)")
    'read (wallaroo/engine/log.py)'
    """
    function, _, place = frame.partition(" (")
    return f"{function} ({'/'.join(place.rpartition(':')[0].split('/')[-3:]).removeprefix('site-packages/')})"


@contextmanager
def sampled(application: Machida, folder: Path, found: dict[str, Samples]) -> Iterator[None]:
    """Take samples of all Python processes of an application for the time of a `with` block."""
    tool = bench_tool("py-spy")
    if tool is None:
        raise NotRunningError("py-spy cannot be installed here.")
    spies = []
    for process in application.processes():
        if kind := _kind(process):
            output = folder / f"{process.pid}.stacks"
            command = [tool, "record", "--pid", str(process.pid), "--format", "raw", "--output", str(output)]
            command += ["--rate", str(_RATE), "--duration", "3600", "--full-filenames", "--nonblocking"]
            spies.append((kind, output, subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)))
    try:
        yield
    finally:
        for _, _, spy in spies:
            spy.send_signal(signal.SIGINT)
        for kind, output, spy in spies:
            spy.communicate(timeout=60)
            _read(output, found.setdefault(kind, Samples()))


def _kind(process: psutil.Process) -> str | None:
    try:
        command = " ".join(process.cmdline())
    except psutil.Error:
        return None
    if "python" not in command.partition(" ")[0]:
        return None
    return next((kind for pattern, kind in _KINDS.items() if re.search(pattern, command)), None)


def _read(path: Path, samples: Samples) -> None:
    samples.processes += 1
    for line in path.read_text().splitlines() if path.exists() else ():
        stack, _, number = line.rpartition(" ")
        samples.add(stack.split(";"), int(number))
