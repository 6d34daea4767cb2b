"""Times on the command line: the same units for all options."""

import click
import pytest

from wallaroo.cli.option_values import parse_duration, parse_time, time_between_commits

SPANS = [("10m", 600.0), ("10min", 600.0), ("30s", 30.0), ("500ms", 0.5), ("1.5 h", 5400.0), ("2d", 172800.0)]


@pytest.mark.parametrize(("text", "seconds"), SPANS)
def test_every_option_takes_the_same_spans(text, seconds):
    assert parse_duration(text) == seconds
    assert parse_time(text, now=1e9) == 1e9 - seconds
    assert time_between_commits(None, None, text) == seconds


def test_a_number_alone_is_in_nanoseconds_as_in_the_original():
    assert time_between_commits(None, None, "2000000000") == 2.0


def test_a_number_alone_is_not_an_age_but_may_be_a_date():
    assert parse_time("20250131") == parse_time("2025-01-31")
    with pytest.raises(click.BadParameter, match="'10' is not a time"):
        parse_time("10")
