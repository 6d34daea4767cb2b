"""The applications whose throughput is measured, and what they are fed: always the same, from a fixed seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

WORDS_A_LINE = 8


class Sections(NamedTuple):
    """The messages of one pipeline, in the order in which they are sent.

    `warm_up` is sent before the clock starts.
    """

    warm_up: list[bytes]
    main: list[bytes]


@dataclass(frozen=True)
class Workload:
    """An application and its input."""

    name: str
    title: str
    app: str
    make: Callable[[int], dict[str, Sections]]
    """Makes the input of each pipeline; `main` has so many events altogether."""
    arguments: tuple[str, ...] = ()
    events_in_a_message: int = 1
    times: int = 1
    """How many times the usual number of events it takes until a run lasts some seconds."""
    has_keys: bool = True
    """Whether outputs begin with a key, and are in order for each key; otherwise they are in order altogether."""


def _vocabulary(size: int) -> tuple[list[str], list[float]]:
    """Return words and how often each has come up to it: a few are frequent and most are rare, as in any text."""
    words: dict[str, None] = {}
    while len(words) < size:
        start = random.choices("tashwiobmfcldpnegryuvjkqzx", weights=range(26, 0, -1))[0]
        words[start + "".join(random.choices("etaoinshrdlu", k=random.randint(2, 8)))] = None
    total = 0.0
    cumulative = [total := total + 1 / (rank + 10) for rank in range(size)]
    return list(words), cumulative


def _words(vocabulary_size: int) -> Callable[[int], dict[str, Sections]]:
    def make(events: int) -> dict[str, Sections]:
        random.seed(20)
        words, cumulative = _vocabulary(vocabulary_size)

        def lines(number: int) -> list[bytes]:
            chosen = iter(random.choices(words, cum_weights=cumulative, k=number * WORDS_A_LINE))
            return [" ".join(line).encode() for line in zip(*[chosen] * WORDS_A_LINE, strict=True)]

        return {"words": Sections(lines(35_000), lines(events // WORDS_A_LINE))}

    return make


def _temperatures(events: int) -> dict[str, Sections]:
    random.seed(21)
    texts = [b"%.1f" % (tenths / 10) for tenths in range(-400, 1200)]
    parts = (random.choices(texts, k=number) for number in (300_000, events))
    return {"temperatures": Sections(*parts)}


def _market(events: int) -> dict[str, Sections]:
    random.seed(22)
    symbols = ["".join(random.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=4)) for _ in range(2_000)]

    def prices(number: int) -> list[bytes]:
        bids = (random.uniform(95, 104) for _ in range(number))
        return [
            f"{symbol} {bid:.2f} {bid + 1:.2f}".encode()
            for symbol, bid in zip(random.choices(symbols, k=number), bids, strict=True)
        ]

    def orders(number: int, first: int, rejected: float) -> list[bytes]:
        far = (random.random() < rejected for _ in range(number))
        return [
            f"{symbol} {first + index} {random.uniform(90, 110) * (9 if is_far else 1):.2f}".encode()
            for index, (symbol, is_far) in enumerate(zip(random.choices(symbols, k=number), far, strict=True))
        ]

    half = events // 2
    return {
        "prices": Sections(prices(60_000), prices(half)),
        "orders": Sections(orders(60_000, 0, 0.05), orders(half, 60_000, 0.05)),
    }


WORKLOADS = [
    Workload("words-27", "word count, 27 keys", "word_count", _words(1_000), (), WORDS_A_LINE),
    Workload("words-5k", "word count, 5,000 keys", "word_count", _words(5_000), ("--by-word",), WORDS_A_LINE),
    Workload("words-200k", "word count, 200,000 keys", "word_count", _words(200_000), ("--by-word",), WORDS_A_LINE),
    Workload("celsius", "stateless conversion", "celsius", _temperatures, times=3, has_keys=False),
    Workload("market", "market spread, two pipelines", "market_spread", _market),
]


def workload(name: str) -> Workload:
    """Return the workload with this name."""
    return next(found for found in WORKLOADS if found.name == name)
