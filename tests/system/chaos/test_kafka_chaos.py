"""A short schedule of faults with Kafka on both sides; `make chaos KAFKA=1` runs others."""

import pytest

from .conductor import perform
from .schedule import OF_TCP, Fault, Moment, make_schedule

SEED = 1179


@pytest.mark.timeout(900)
def test_every_output_is_in_the_topic_once_under_any_faults(new_kafka, tmp_path):
    result = perform(make_schedule(SEED, 3, kafka=True), tmp_path, new_kafka())
    print(result)
    assert not result.verdict.violations, f"run it again with `make chaos KAFKA=1 SEED={SEED}`: {result}"


def test_seeds_have_every_fault_and_moment_of_kafka():
    struck = set().union(*(make_schedule(seed, kafka=True).kinds for seed in range(200)))
    assert struck == {*map(str, Fault), *map(str, Moment)} - {*map(str, OF_TCP), str(Moment.ROLLOVER)}


def test_a_seed_decides_on_kafka_unless_it_is_asked_for():
    assert {make_schedule(seed).kafka for seed in range(20)} == {False, True}
    assert make_schedule(1, kafka=True) == make_schedule(1, kafka=True)
