"""Some schedules of faults in which every kind occurs; `make chaos` runs others, for as long as one likes."""

import pytest

from .conductor import perform
from .schedule import OF_KAFKA, Fault, Moment, make_schedule

SEEDS = {1285: 5, 2906: 5, 52: 3}
"""By seed, how many faults there are."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_guarantees_hold_under_any_faults(seed, tmp_path):
    result = perform(make_schedule(seed, SEEDS[seed], kafka=False), tmp_path)
    print(result)
    assert not result.verdict.violations, result
    # A process that does not exist yet, or any more, cannot be hit; during traffic all of them exist.
    assert {strike.moment for strike in result.missed} <= {Moment.NEXT, Moment.RECOVERY}, result.missed


def test_every_kind_of_fault_and_every_kind_of_moment_occurs():
    struck = set().union(*(make_schedule(seed, strikes, kafka=False).kinds for seed, strikes in SEEDS.items()))
    # Those of a cluster are in `test_cluster`.
    assert struck == {*map(str, Fault), *map(str, Moment)} - {*map(str, OF_KAFKA), str(Fault.KILL_EXECUTOR)}


def test_a_seed_makes_the_same_schedule_each_time():
    assert make_schedule(1) == make_schedule(1)
    assert make_schedule(1) != make_schedule(2)
