"""What is reported about states that were made for keys that were not listed."""

import json

import pytest

from wallaroo.engine.delivery import unlisted_keys
from wallaroo.engine.delivery.unlisted_keys import UnlistedKeys

REMEDY = " With --strict-keys, their messages become dead letters instead."


def line(states, state="votes", example="'z'"):
    return f"State {state!r}: made {states} for keys that were not listed, such as {example}, in this run."


@pytest.fixture
def told():
    return []


@pytest.fixture
def keys(told):
    return UnlistedKeys(told.append)


def add(keys, number, state="votes", example="'z'"):
    keys.add(memoryview(json.dumps({state: [number, example]}).encode()))


def test_the_first_are_reported_at_once_and_the_rest_at_the_end(keys, told):
    keys.sum_up()
    assert told == []
    add(keys, 5)
    add(keys, 7, example="'y'")
    keys.sum_up()
    assert told == [line("12 states") + REMEDY]
    add(keys, 1000)
    keys.sum_up()
    assert len(told) == 1
    keys.close()
    assert told[1:] == [line("1,012 states")]
    keys.close()
    assert len(told) == 2


def test_after_a_minute_they_are_reported_again_when_they_have_doubled(keys, told, monkeypatch):
    monkeypatch.setattr(unlisted_keys, "REPORT_AGAIN_SECONDS", 0.0)
    for number in (1, 1, 1, 1, 4, 1):
        add(keys, number)
        keys.sum_up()
        keys.sum_up()
    assert told == [line("1 state") + REMEDY, line("2 states"), line("4 states"), line("8 states")]


def test_each_state_is_reported_by_itself(keys, told):
    add(keys, 1)
    add(keys, 2, state="names", example="('a', 1)")
    keys.sum_up()
    assert told == [line("1 state") + REMEDY, line("2 states", "names", "('a', 1)") + REMEDY]
