"""Spans of time are nanoseconds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wallaroo

UNITS = ["nanoseconds", "microseconds", "milliseconds", "seconds", "minutes", "hours"]


@settings(deadline=None)
@given(st.integers(-(2**40), 2**40))
def test_units_build_on_one_another(number):
    assert wallaroo.nanoseconds(number) == number
    assert wallaroo.microseconds(number) == wallaroo.nanoseconds(1000 * number)
    assert wallaroo.milliseconds(number) == wallaroo.microseconds(1000 * number)
    assert wallaroo.seconds(number) == wallaroo.milliseconds(1000 * number)
    assert wallaroo.minutes(number) == wallaroo.seconds(60 * number)
    assert wallaroo.hours(number) == wallaroo.minutes(60 * number)


def test_fractions_of_a_unit_are_rounded():
    assert wallaroo.seconds(0.1) == wallaroo.milliseconds(100)
    assert wallaroo.hours(0.5) == wallaroo.minutes(30)
    assert all(type(getattr(wallaroo, unit)(1.5)) is int for unit in UNITS)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("given", ["5", None, True, float("inf"), float("nan")])
def test_only_numbers_are_spans(unit, given):
    with pytest.raises(wallaroo.WallarooParameterError) as refused:
        getattr(wallaroo, unit)(given)
    assert f"{unit} needs a number, as in wallaroo.{unit}(5); got " in str(refused.value)
