"""Telling people what happens, without flooding their screen."""

from __future__ import annotations

import asyncio

import pytest

from wallaroo import notices
from wallaroo.notices import TOLD_IN_FULL, ConnectionSummary, DebouncedNotice

from .ingress.conftest import until


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(notices, "SUMMARY_SECONDS", 0.05)
    monkeypatch.setattr(notices, "QUIET_SECONDS", 0.05)


def test_the_first_closings_are_told_in_full_and_the_rest_is_counted():
    async def run():
        told = []
        summary = ConnectionSummary("numbers", told.append)
        for number in range(1240):
            summary.tell(f"peer {number}", "odd" if number % 2 else "even", f": {number} is wrong.")
        assert told == [
            f"The connection from peer {number} to 'numbers' was closed: {number} is wrong."
            for number in range(TOLD_IN_FULL)
        ]
        await until(lambda: len(told) > TOLD_IN_FULL)
        assert told.pop() == (
            "And 1,235 more connections to 'numbers' were closed: 618 odd, 617 even. "
            "The last one: peer 1239: 1239 is wrong."
        )
        # As long as it goes on there are only summaries.
        summary.tell("one", "odd", ": wrong.")
        await until(lambda: len(told) > TOLD_IN_FULL)
        assert told.pop() == "And 1 more connection to 'numbers' was closed: 1 odd. The last one: one: wrong."
        # When it was quiet for a while, the next one is told in full again.
        await until(lambda: summary._timer is None)
        summary.tell("two", "odd", ": wrong.")
        assert told[TOLD_IN_FULL:] == ["The connection from two to 'numbers' was closed: wrong."]
        summary.close()
        assert len(told) == TOLD_IN_FULL + 1

    asyncio.run(run())


def test_what_is_left_is_told_at_the_end():
    async def run():
        told = []
        summary = ConnectionSummary("numbers", told.append)
        for number in range(TOLD_IN_FULL + 2):
            summary.tell(f"peer {number}", "odd", ".")
        summary.close()
        assert told[TOLD_IN_FULL:] == [
            f"And 2 more connections to 'numbers' were closed: 2 odd. The last one: peer {TOLD_IN_FULL + 1}."
        ]

    asyncio.run(run())


def test_what_comes_and_goes_is_told_once():
    async def run():
        told = []
        spell = DebouncedNotice(told.append)
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


def test_an_end_without_a_beginning_is_not_told():
    async def run():
        told = []
        DebouncedNotice(told.append).end("is over")
        await asyncio.sleep(0.1)
        assert told == []

    asyncio.run(run())
