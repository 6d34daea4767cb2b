"""From a topic of Kafka to another: throughput and latency, against Bytewax, Quix Streams and a bare loop."""

from __future__ import annotations

import time
from array import array
from typing import Any

from bench.contract import best_of
from bench.errors import BenchmarkError
from bench.figures import Figures
from bench.kafka import (
    AT_LEAST_ONCE,
    BYTEWAX,
    EXACTLY_ONCE,
    LOOP,
    QUIX,
    Competitor,
    Outputs,
    Words,
    new_topics,
    running_broker,
    suspended,
)
from bench.kafka_wires import TopicReceiver, TopicSender
from bench.latency import Load, percentiles
from bench.places import scratch
from bench.setting import Setting
from bench.workloads import WORDS_A_LINE, workload

_UNIT = "events/s"
_WORDS = "Kafka, word count"
_WARM_UP_LINES = 8_000
_SLICES = 4
_RATE = 1_000
_KEYS = 1_000
_PATIENCE = 300.0


def run(setting: Setting) -> Figures:
    """Measure both."""
    figures = Figures("From topic to topic")
    with running_broker() as broker:
        _Throughput(setting, figures, broker).run()
        _Latency(setting, figures, broker).run()
    return figures


class _Throughput:
    """The word count out of a filled topic: ours and the others in turn, round after round."""

    def __init__(self, setting: Setting, figures: Figures, broker: Any) -> None:
        self._setting = setting
        self._figures = figures
        self._broker = broker
        sections = workload("words-27").make(setting.number_of_events(200_000, 1_000_000))["words"]
        self._warm_up = sections.warm_up[:_WARM_UP_LINES]
        self._main = sections.main
        self._warm_up_words = Words(self._warm_up)
        self._all_words = Words([*self._warm_up, *self._main])

    def run(self) -> None:
        everyone = [EXACTLY_ONCE, *BYTEWAX, *QUIX, LOOP, AT_LEAST_ONCE]
        for number in range(self._setting.rounds):
            # Each round starts with another one, so that none always comes after the same.
            for competitor in everyone[number % len(everyone) :] + everyone[: number % len(everyone)]:
                self._measure(competitor, f"round {number + 1} of {self._setting.rounds}")
        self._add_ratios()

    def _measure(self, competitor: Competitor, which: str) -> None:
        title = f"{_WORDS}, {which}: {competitor.name}"
        try:
            with self._setting.doing(f"{title} ..."):
                rate = len(self._main) * WORDS_A_LINE / self._seconds(competitor)
        except BenchmarkError as error:
            self._figures.notes.append(f"{title}: {error}")
            self._setting.say(f"{title}: not measured, {str(error).partition(chr(10))[0]}")
            return
        self._figures.add(f"{_WORDS}: {competitor.name}", rate, _UNIT)
        self._setting.say(f"{title}: {rate:,.0f} {_UNIT}")

    def _seconds(self, competitor: Competitor) -> float:
        """Return the seconds from a filled topic to the last output that can be read."""
        with new_topics(self._broker) as topics, scratch() as folder:
            outputs = Outputs(topics)
            with competitor.start("words", topics, folder) as program:
                for number in range(_SLICES):
                    topics.fill(self._warm_up[number::_SLICES])
                    time.sleep(0.5)
                self._warm_up_words.check(
                    competitor.name, outputs.wait_for(self._warm_up_words.number, program, _PATIENCE)
                )
                with suspended(program):
                    topics.fill(self._main)
                started = time.monotonic_ns()
                found = outputs.wait_for(self._all_words.number, program, _PATIENCE)
            self._all_words.check(competitor.name, found)
            return (outputs.readable_at(found) - started) / 1e9

    def _add_ratios(self) -> None:
        figures = self._figures
        ours = f"{_WORDS}: {EXACTLY_ONCE.name}"
        bests = []
        for members in (BYTEWAX, QUIX):
            best = figures.best(f"{_WORDS}: {member.name}" for member in members)
            if best is not None:
                bests.append(best)
                figures.add_ratios(f"{ours} / {best_of(members[0].family, members)}", ours, best)
        better = figures.best(bests)
        if better is not None:
            figures.add_ratios(f"{ours} / the better of the two", ours, better)
        figures.add_ratios(f"{ours} / bare loop", ours, f"{_WORDS}: {LOOP.name}")


class _Latency:
    """Messages at a steady rate, which are answered with the count of their key."""

    def __init__(self, setting: Setting, figures: Figures, broker: Any) -> None:
        self._setting = setting
        self._figures = figures
        self._broker = broker

    def run(self) -> None:
        for number in range(self._setting.rounds):
            for competitor in (AT_LEAST_ONCE, EXACTLY_ONCE, BYTEWAX[0], QUIX[0], LOOP):
                self._measure(competitor, f"round {number + 1} of {self._setting.rounds}")

    def _measure(self, competitor: Competitor, which: str) -> None:
        name = f"Kafka, {_RATE:,}/s: {competitor.name}"
        title = f"{name}, {which}"
        try:
            with self._setting.doing(f"{title} ..."):
                found = percentiles(self._latencies(competitor))
        except BenchmarkError as error:
            self._figures.notes.append(f"{title}: {error}")
            self._setting.say(f"{title}: not measured, {str(error).partition(chr(10))[0]}")
            return
        for percentile, value in found.items():
            self._figures.add(f"{name}: {percentile}", value, "ms")
        shown = ", ".join(f"{percentile} {value:,.1f}" for percentile, value in found.items())
        self._setting.say(f"{title}: {shown} ms")

    def _latencies(self, competitor: Competitor) -> array[int]:
        """Return the latency of each message of the second half; in the first, programs get warm."""
        seconds = self._setting.seconds(8, 30)
        with new_topics(self._broker) as topics, scratch() as folder:
            output = folder / "output"
            with (
                TopicReceiver(topics, output) as receiver,
                TopicSender(topics) as sender,
                competitor.start("latency", topics, folder),
            ):
                load = Load(receiver, sender, output, _KEYS)
                # Those that do not say when they are ready are, when they have answered these.
                load.run(None, _KEYS, _RATE, _PATIENCE)
                latencies = load.run(None, 2 * seconds * _RATE, _RATE, _PATIENCE)
        return latencies[len(latencies) // 2 :]
