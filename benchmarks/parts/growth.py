"""What grows and what must not: with the input, with the live state, with the history behind a state."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from bench.errors import TooSlowError
from bench.figures import Figures
from bench.inputs import Input, input_of
from bench.latency import Load, percentiles
from bench.machida import Machida
from bench.places import scratch
from bench.setting import Setting
from bench.wires import Receiver, Sender
from bench.workloads import workload

_PATIENCE = 600.0
_AT_ONCE = 1e6
"""A rate that no engine keeps up with: as fast as it goes."""
_TOUCHED = 1_000
_KEYS_WITH_HISTORY = 10_000
_TIMES = (1, 5, 20)


def run(setting: Setting) -> Figures:
    """Measure all three."""
    figures = Figures("Growth")
    given = input_of(workload("words-27"), setting.number_of_events(250_000, 2_000_000))
    for number in range(setting.rounds):
        title = f"Growth, round {number + 1} of {setting.rounds}"
        with scratch() as folder:
            _grow_input(setting, figures, title, given, folder)
        for keys in setting.pick((10_000,), (1_000, 10_000, 100_000, 1_000_000)):
            with scratch() as folder:
                history = setting.pick((1, 20), _TIMES) if keys == _KEYS_WITH_HISTORY else ()
                _State(setting, figures, title, keys, folder).run(history)
    figures.add_ratios("input 20x / 5x: memory", "input 20x: memory", "input 5x: memory")
    figures.add_ratios("input 20x / 5x: rate", "input 20x: rate", "input 5x: rate")
    figures.add_ratios("history 20x / 1x: restart", "history 20x: restart", "history 1x: restart")
    return figures


def _grow_input(setting: Setting, figures: Figures, title: str, given: Input, folder: Path) -> None:
    """Count the same words again and again; the state keeps its size, so memory and rate should stay what they are."""
    counts = _word_counts(given)
    ((pipeline, frames),) = given.frames.items()
    with (
        Receiver() as receiver,
        Sender() as sender,
        Machida("word_count", folder / "home", receiver.address) as application,
    ):
        done, since = 0, time.monotonic_ns()
        for times in _TIMES:
            memory = 0
            with setting.doing(f"{title}: {times} times the input ..."):
                for time_ in range(done + 1, times + 1):
                    sender.start_sending(application.address(pipeline), frames, frames.main)
                    expected = sum(_bytes_of(word, time_ * number) for word, number in counts.items())
                    last, seen = _watch(receiver, application, expected)
                    memory = max(memory, seen)
                    sender.finish()
            rate = (times - done) * given.main_events / ((last - since) / 1e9)
            done, since = times, last
            figures.add(f"input {times}x: memory", memory / 1e6, "MB")
            figures.add(f"input {times}x: rate", rate, "events/s")
            setting.say(f"{title}: input {times}x: {memory / 1e6:,.0f} MB, {rate:,.0f} events/s")


def _word_counts(given: Input) -> Counter[bytes]:
    """Return how often each word comes in the main section."""
    ((_, frames),) = given.frames.items()
    lines = (given.folder / "words.txt").read_bytes().splitlines()
    messages = given.main_events // workload("words-27").events_in_a_message
    assert frames.main[1] > frames.main[0]
    return Counter(word for line in lines[-messages:] for word in line.split(b" "))


def _bytes_of(word: bytes, number: int) -> int:
    """Return how many bytes the outputs of a word have that came so often: `word => 1` to `word => number`.

    >>> _bytes_of(b"tea", 11) == sum(len(f"tea => {count}\\n") for count in range(1, 12))
    True
    """
    digits = 0
    power = 1
    while power <= number:
        digits += number - power + 1
        power *= 10
    return number * (len(word) + len(" => \n")) + digits


def _watch(receiver: Receiver, application: Machida, expected: int) -> tuple[int, int]:
    """Wait until all has come; return when it had, and the most memory that was seen in the meantime."""
    deadline = time.monotonic() + _PATIENCE
    memory = application.memory()
    while (found := receiver.progress())[0] < expected:
        if time.monotonic() > deadline:
            raise TooSlowError(f"{found[0]:,} of {expected:,} bytes had come after {_PATIENCE:.0f} seconds.")
        time.sleep(0.2)
        memory = max(memory, application.memory())
    return found[1], memory


class _State:
    """An application with a state for each of so many keys, stopped and started again on the same directory."""

    def __init__(self, setting: Setting, figures: Figures, title: str, keys: int, folder: Path) -> None:
        self._setting = setting
        self._figures = figures
        self._title = title
        self._keys = keys
        self._folder = folder
        self._sent = 0

    def run(self, times_of_history: Sequence[int]) -> None:
        name = f"{self._keys:,} keys"
        with self._setting.doing(f"{self._title}: {name} ..."), self._life() as (application, load):
            address = application.address("messages")
            load.run(address, self._keys, _AT_ONCE, _PATIENCE)
            latencies = load.run(address, self._setting.seconds(5, 20) * 1_000, 1_000, _PATIENCE)
            self._figures.add(f"{name}: p50 at 1,000/s", percentiles(latencies)["p50"], "ms")
        self._restart(name, more=times_of_history[0] if times_of_history else 0)
        for times, next_times in pairwise([*times_of_history, times_of_history[-1]] if times_of_history else []):
            self._restart(f"history {times}x", more=next_times - times)

    def _restart(self, name: str, *, more: int) -> None:
        """Measure a start on what is there; then send more messages for the same keys, so that the history grows."""
        title = f"{self._title}: {name}: restart"
        with self._setting.doing(f"{title} ..."), self._life() as (application, load):
            address = application.address("messages")
            load.run(address, _TOUCHED, _AT_ONCE, _PATIENCE)
            answered = (load.receiver.progress()[1] - application.started_ns) / 1e9
            self._figures.add(f"{name}: restart", application.ready_seconds, "s")
            self._figures.add(f"{name}: restart, to the first answers", answered, "s")
            self._setting.say(f"{title} {application.ready_seconds:.1f} s, to the first answers {answered:.1f} s")
            if more:
                load.run(address, more * self._messages_a_time(), _AT_ONCE, _PATIENCE)

    def _messages_a_time(self) -> int:
        return 1_000 if self._setting.tiny else self._setting.pick(50_000, 250_000)

    @contextmanager
    def _life(self) -> Iterator[tuple[Machida, Load]]:
        """Run the application for the time of a `with` block."""
        output = self._folder / "output"
        with (
            Receiver(output) as receiver,
            Sender() as sender,
            Machida("latency", self._folder / "home", receiver.address) as application,
        ):
            load = Load(receiver, sender, output, self._keys, sent=self._sent)
            yield application, load
            self._sent = load.sent
