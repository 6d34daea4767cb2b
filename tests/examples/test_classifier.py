"""The README of `examples/classifier`, followed."""

import csv
import math
from statistics import fmean, pvariance

from .readme import EXAMPLES, expect_shown


def learn(path):
    """Return, for each condition, the mean and variance of each reading; all conditions are equally frequent."""
    with path.open() as file:
        _, *rows = csv.reader(file)
    by_condition = {}
    for *readings, condition in rows:
        by_condition.setdefault(condition, []).append([float(reading) for reading in readings])
    assert {len(found) for found in by_condition.values()} == {40}
    return {
        condition: [(fmean(column), pvariance(column)) for column in zip(*found, strict=True)]
        for condition, found in by_condition.items()
    }


def classify(readings, learnt):
    """Return the most probable condition and its probability: Bayes' theorem, by hand."""
    densities = {
        condition: math.prod(
            math.exp(-((reading - mean) ** 2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)
            for reading, (mean, variance) in zip(readings, curves, strict=True)
        )
        for condition, curves in learnt.items()
    }
    best = max(densities, key=densities.get)
    return best, densities[best] / sum(densities.values())


def test_every_pump_is_classified_once(walkthrough):
    folder = EXAMPLES / "classifier"
    learnt = learn(folder / "training.csv")
    expected = []
    for line in (folder / "readings.csv").read_text().splitlines():
        pump, *readings = line.split(",")
        condition, probability = classify([float(reading) for reading in readings], learnt)
        expected.append(f"{pump}: {condition} ({probability:.0%})")
    assert len(expected) == 1000
    walk = walkthrough("classifier")

    receiver = walk.start("wallaroo receive")
    walk.start("machida")
    walk.run("wallaroo send")
    walk.wait_for_lines(receiver, len(expected))
    walk.make_data_again("python make_data.py", "*.csv")
    walk.finish()

    lines = receiver.stdout.decode().splitlines()
    assert lines == expected
    expect_shown(walk.shown, lines)
