"""Notices that recur: reported, and counted, without flooding the screen."""

from __future__ import annotations

import asyncio

import pytest

from wallaroo import notices
from wallaroo.notices import Condition, Throttle

from .ingress.conftest import until


@pytest.fixture
def clock(monkeypatch):
    """Stop the time of the notices; the list has it, in seconds."""
    now = [1000.0]
    monkeypatch.setattr(notices, "monotonic", lambda: now[0])
    return now


def test_what_recurs_is_due_at_once_and_then_after_the_interval(clock):
    throttle = Throttle(interval=10.0)
    assert not throttle.is_due
    throttle.add()
    assert throttle.is_due
    assert throttle.take() == 1
    throttle.add(2)
    clock[0] += 9.9
    throttle.add()
    assert not throttle.is_due
    clock[0] += 0.1
    assert throttle.is_due
    assert throttle.take() == 3
    clock[0] += 60.0
    assert not throttle.is_due
    assert throttle.total == 4


def test_a_condition_that_recurs_is_reported_once_in_the_interval(clock):
    told = []
    condition = Condition(told.append, interval=60.0)
    for _ in range(4):
        condition.begin("begins")
        condition.begin("begins")
        assert condition.present
        condition.end("is over")
        condition.end("is over")
        assert not condition.present
    assert told == ["begins", "is over"]
    clock[0] += 60.0
    condition.begin("begins")
    condition.end("is over")
    assert told[2:] == ["begins (3 more times since the last report.)", "is over"]


def test_a_condition_that_changes_is_reported_again_and_ends_once():
    told = []
    condition = Condition(told.append)
    for text in ("the disk is full", "the disk is full", "a worker died", "the disk is full"):
        condition.begin_or_change(text)
    condition.end("is over")
    condition.end("is over")
    condition.begin_or_change("the disk is full")
    assert told == ["the disk is full", "a worker died", "the disk is full", "is over", "the disk is full"]


def test_a_condition_that_comes_and_goes_is_reported_once():
    async def run():
        told = []
        spell = Condition(told.append, quiet=0.05)
        for _ in range(100):
            spell.begin("begins")
            spell.end("is over")
        assert told == ["begins"]
        await until(lambda: len(told) > 1)
        assert told == ["begins", "is over"]
        spell.begin("begins anew")
        spell.close()
        assert told[2:] == ["begins anew"]

    asyncio.run(run())


def test_an_end_without_a_beginning_is_not_reported():
    async def run():
        told = []
        Condition(told.append, quiet=0.05).end("is over")
        await asyncio.sleep(0.1)
        assert told == []

    asyncio.run(run())
