"""What the comparisons with Kafka share: a broker, programs between two topics, and what has come out."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import IsolationLevel, Message, TopicPartition
from confluent_kafka.admin import OffsetSpec

from bench.contract import bench_python
from bench.errors import DifferentOutputError, NotRunningError, TooSlowError
from bench.machida import Machida
from bench.places import BASELINES, SOURCES, environment, scratch

PARTITIONS = 4
_LOOK_SECONDS = 0.01
_QUIET_SECONDS = 1.0
_ANSWER_SECONDS = 30.0


@dataclass(frozen=True)
class Topics:
    """Where a program reads, and where it writes."""

    broker: Any
    source: str
    sink: str

    def fill(self, messages: Iterable[bytes]) -> None:
        """Send messages to the partitions of the source in turn."""
        partitions = itertools.cycle(range(PARTITIONS))
        self.broker.produce(
            self.source,
            ({"value": message, "partition": next(partitions)} for message in messages),
            **{"queue.buffering.max.messages": 1_000_000},
        )

    def delete(self) -> None:
        """Delete both, so that what one program has written is no burden to the next."""
        self.broker.delete_topic(self.source)
        self.broker.delete_topic(self.sink)


@contextmanager
def running_broker() -> Iterator[Any]:
    """Run a broker for the time of a `with` block."""
    sys.path[:0] = [str(SOURCES), str(SOURCES.parent)]
    # They need the paths above.
    from tools.ivy import OfflineError  # noqa: PLC0415
    from tools.kafka_broker import Broker  # noqa: PLC0415
    from tools.kafka_jars import jars  # noqa: PLC0415

    try:
        jars()
    except OfflineError as error:
        raise NotRunningError(
            f"the jars of a Kafka broker are not here, and cannot be downloaded ({str(error).splitlines()[-1]})."
        ) from error
    with scratch() as folder:
        broker = Broker(folder / "broker").start()
        try:
            yield broker
        finally:
            broker.clean_up()


@contextmanager
def new_topics(broker: Any) -> Iterator[Topics]:
    """Create two topics for the time of a `with` block."""
    topics = Topics(broker, *(broker.create_topic(partitions=PARTITIONS) for _ in range(2)))
    try:
        yield topics
    finally:
        topics.delete()


class Program(AbstractContextManager["Program"]):
    """A program between two topics, as one process or several equal ones."""

    def __init__(self, name: str, commands: Sequence[Sequence[str]], application: str, topics: Topics, folder: Path):
        self._name = name
        self._said = folder / "said"
        self._processes = []
        for number, command in enumerate(commands):
            given = {
                "BENCH_APPLICATION": application,
                "BENCH_BROKERS": topics.broker.address,
                "BENCH_SOURCE": topics.source,
                "BENCH_SINK": topics.sink,
                "BENCH_STATE": str(folder / f"state-{number}"),
            }
            with self._said.open("a") as said:
                self._processes.append(
                    subprocess.Popen(
                        command,
                        cwd=BASELINES,
                        env={**environment(), **given},
                        stdin=subprocess.DEVNULL,
                        stdout=said,
                        stderr=said,
                        start_new_session=True,
                    )
                )

    def check(self) -> None:
        """Raise an error if it has ended."""
        if any(process.poll() is not None for process in self._processes):
            raise NotRunningError(f"{self._name} has ended:\n{self._said.read_text(errors='replace')[-2000:]}")

    def processes(self) -> list[psutil.Process]:
        """Return its processes."""
        return [psutil.Process(process.pid) for process in self._processes]

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class Ours(Machida):
    """An application of ours between two topics."""

    def __init__(self, app: str, topics: Topics, folder: Path, arguments: tuple[str, ...] = ()) -> None:
        given = [f"--kafka_{which}_{what}" for which in ("source", "sink") for what in ("topic", "brokers")]
        values = (topics.source, topics.broker.address, topics.sink, topics.broker.address)
        super().__init__(app, folder / "home", None, (*itertools.chain(*zip(given, values, strict=True)), *arguments))

    def check(self) -> None:
        """Raise an error if it has ended."""
        if not self.processes():
            raise NotRunningError(f"Wallaroo has ended:\n{self.said[-2000:]}")


@dataclass(frozen=True)
class Competitor:
    """A way to run an application between two topics."""

    name: str
    start: Callable[[str, Topics, Path], Program | Ours]
    """Starts `words` or `latency`; what it returns is entered before anything is measured."""
    family: str = ""
    """Of a family only the best counts."""


def _ours(*arguments: str) -> Callable[[str, Topics, Path], Program | Ours]:
    apps = {"words": "kafka_word_count", "latency": "kafka_latency"}
    return lambda application, topics, folder: Ours(apps[application], topics, folder, arguments)


def _baseline(
    name: str, commands: Callable[[str], Sequence[Sequence[str]]]
) -> Callable[[str, Topics, Path], Program | Ours]:
    def start(application: str, topics: Topics, folder: Path) -> Program:
        python = bench_python()
        if python is None:
            raise NotRunningError(f"{name} cannot be installed here.")
        return Program(name, commands(python), application, topics, folder)

    return start


def _bytewax(python: str, *options: str) -> list[str]:
    return [python, "-m", "bytewax.run", "kafka_bytewax:flow", *options]


def _two_bytewax(python: str) -> list[list[str]]:
    from tools.free_port import free_port  # noqa: PLC0415 - found after the broker has been started.

    addresses = ";".join(f"127.0.0.1:{free_port()}" for _ in range(2))
    return [_bytewax(python, "-i", str(number), "-a", addresses) for number in range(2)]


EXACTLY_ONCE = Competitor("Wallaroo, exactly once", _ours())
AT_LEAST_ONCE = Competitor("Wallaroo, at least once", _ours("--at-least-once"))
LOOP = Competitor("bare loop", _baseline("the bare loop", lambda python: [[python, "kafka_loop.py"]]))
BYTEWAX = [
    Competitor("Bytewax, one worker", _baseline("Bytewax", lambda python: [_bytewax(python)]), "Bytewax"),
    Competitor("Bytewax, two threads", _baseline("Bytewax", lambda python: [_bytewax(python, "-w", "2")]), "Bytewax"),
    Competitor("Bytewax, two processes", _baseline("Bytewax", _two_bytewax), "Bytewax"),
]
QUIX = [
    Competitor("Quix Streams, one process", _baseline("Quix Streams", lambda p: [[p, "kafka_quix.py"]]), "Quix"),
    Competitor("Quix Streams, two processes", _baseline("Quix Streams", lambda p: [[p, "kafka_quix.py"]] * 2), "Quix"),
]


@contextmanager
def suspended(program: Program | Ours) -> Iterator[None]:
    """Stop all processes of a program for the time of a `with` block."""
    stopped = program.processes()
    for process in stopped:
        process.suspend()
    try:
        yield
    finally:
        for process in stopped:
            with suppress(psutil.NoSuchProcess):
                process.resume()


class Outputs:
    """Looks at what comes out, without reading it: how far it can be read, if only what is committed is.

    So looking costs next to nothing, also if there is a lot. Messages that end a transaction have offsets as well: how
    many outputs there are is known only when they have been read.
    """

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._looks: list[tuple[int, dict[int, int]]] = []

    def wait_for(self, number: int, program: Program | Ours, patience: float) -> list[Message]:
        """Wait until there are so many outputs and nothing more comes; return all of them."""
        deadline = time.monotonic() + patience
        while True:
            self._wait_until_quiet(number, program, deadline)
            found: list[Message] = self._topics.broker.consume(self._topics.sink)
            if len(found) >= number:
                return found
            if time.monotonic() > deadline:
                raise TooSlowError(f"{len(found):,} of {number:,} outputs had come after {patience:.0f} seconds.")

    def _wait_until_quiet(self, number: int, program: Program | Ours, deadline: float) -> None:
        changed = time.monotonic()
        ends: dict[int, int] = {}
        while time.monotonic() < deadline:
            program.check()
            if (now := self._ends()) != ends:
                ends, changed = now, time.monotonic()
                self._looks.append((time.monotonic_ns(), ends))
            if sum(ends.values()) >= number and time.monotonic() - changed > _QUIET_SECONDS:
                return
            time.sleep(_LOOK_SECONDS)

    def _ends(self) -> dict[int, int]:
        asked = {TopicPartition(self._topics.sink, number): OffsetSpec.latest() for number in range(PARTITIONS)}
        answers = self._topics.broker.admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED)
        return {each.partition: answer.result(_ANSWER_SECONDS).offset for each, answer in answers.items()}

    def readable_at(self, found: Sequence[Message]) -> int:
        """Return when the last of the messages could be read, in ns."""
        last: dict[int, int] = {}
        for message in found:
            last[message.partition()] = message.offset()
        return max(
            next(moment for moment, ends in self._looks if ends[partition] > offset)
            for partition, offset in last.items()
        )


class Words:
    """The input of the word count, and what has to come out: each word with 1, 2, 3 and so on."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._expected: Counter[bytes] = Counter()
        for line in lines:
            self._expected.update(line.split(b" "))
        self.number = self._expected.total()

    def check(self, who: str, found: Iterable[Message]) -> None:
        """Raise an error unless these are the outputs, those of a word in one partition and in order."""
        seen: Counter[bytes] = Counter()
        homes: dict[bytes, int] = {}
        for message in found:
            word, _, count = message.value().partition(b" => ")
            seen[word] += 1
            home = message.partition()
            if int(count) != seen[word] or message.key() != word or homes.setdefault(word, home) != home:
                raise DifferentOutputError(
                    f"{who} put out {message.value()!r} with the key {message.key()!r} where {seen[word]} was expected."
                )
        if seen != self._expected:
            raise DifferentOutputError(f"{who} put out {seen.total():,} counts, not {self.number:,}, or other words.")
