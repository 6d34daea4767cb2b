"""How much a batch takes follows from how long the last ones took."""

from __future__ import annotations

from random import Random
from statistics import median

import pytest

from wallaroo.engine.batch_size import BatchSize

MIB = 1 << 20


class Run:
    """Batches of an application that works off so many bytes a second, and needs some time for each batch as well."""

    def __init__(self, rate: float, each: float = 0.2, most: int = 64 * MIB) -> None:
        self.now = 0.0
        self.rate = rate
        self.each = each
        self.size = BatchSize(most, clock=lambda: self.now)

    def batch(self, *, full: bool = True, noise: float = 1.0) -> float:
        took = noise * (self.each + self.size.bytes / self.rate)
        self.size.begins(full=full)
        self.now += took
        self.size.ends()
        return took


@pytest.mark.parametrize("rate", [100_000, 1e6, 10e6])
def test_a_batch_takes_about_three_seconds(rate: float) -> None:
    run = Run(rate)
    times = [run.batch() for _ in range(20)]
    assert all(2.5 < took < 3.5 for took in times[6:])


@pytest.mark.parametrize("each", [2.9, 4.0, 7.0, 20.0])
def test_batches_do_not_shrink_where_that_does_not_make_them_shorter(each: float) -> None:
    rate = 10e6
    run = Run(rate, each)
    sizes, times = [], []
    for _ in range(100):
        sizes.append(run.size.bytes)
        times.append(run.batch())
    # At least what batches of 16 MiB would do.
    assert sum(sizes) / sum(times) > 0.9 * 16 * MIB / (each + 16 * MIB / rate)


@pytest.mark.parametrize("each", [0.2, 1.0, 4.0])
@pytest.mark.parametrize("rate", [1e4, 1e6, 10e6])
def test_noise_does_no_harm(rate: float, each: float) -> None:
    random = Random(7)
    run = Run(rate, each)
    times = [run.batch(noise=random.uniform(0.7, 1.5)) for _ in range(300)]
    assert max(times[10:]) < 1.6 * 30
    assert median(times[10:]) < max(5.0, 2.5 * each)


def test_it_follows_an_application_that_becomes_slower_or_faster() -> None:
    run = Run(1e6)
    for rate in (1e4, 1e7, 1e5):
        run.rate = rate
        times = [run.batch() for _ in range(12)]
        assert 2.5 < times[-1] < 3.5


def test_it_has_bounds() -> None:
    fast = Run(1e12, each=0.0, most=10 * MIB)
    slow = Run(1.0)
    for run in (fast, slow):
        for _ in range(20):
            run.batch()
    assert (fast.size.bytes, slow.size.bytes) == (10 * MIB, 16 << 10)


def test_a_batch_that_took_all_there_was_says_nothing() -> None:
    run = Run(1e9)
    run.each = 60.0  # Its receiver did not read, say.
    before = run.size.bytes
    run.batch(full=False)
    assert run.size.bytes == before


def test_the_end_of_a_batch_counts_once() -> None:
    run = Run(1e6)
    run.batch()
    after = run.size.bytes
    run.now += 100
    run.size.ends()
    assert run.size.bytes == after
