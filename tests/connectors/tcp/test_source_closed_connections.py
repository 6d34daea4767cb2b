"""Reports of closed connections: few lines, however many there are."""

from __future__ import annotations

import asyncio

import pytest

from wallaroo.connectors.tcp import source
from wallaroo.connectors.tcp.source import REPORTED_IN_FULL, ClosedConnections

from ...ingress.conftest import until  # noqa: TID252 - tests are not installed


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(source, "SUMMARY_SECONDS", 0.05)


def test_the_first_closings_are_reported_in_full_and_the_rest_is_counted():
    async def run():
        told = []
        closed = ClosedConnections("numbers", told.append)
        for number in range(1240):
            closed.add(f"peer {number}", "odd" if number % 2 else "even", f": {number} is wrong.")
        assert told == [
            f"The connection from peer {number} to 'numbers' was closed: {number} is wrong."
            for number in range(REPORTED_IN_FULL)
        ]
        await until(lambda: len(told) > REPORTED_IN_FULL)
        assert told.pop() == (
            "And 1,235 more connections to 'numbers' were closed: 618 odd, 617 even. "
            "The last one: peer 1239: 1239 is wrong."
        )
        # While connections keep closing, there are only summaries.
        closed.add("one", "odd", ": wrong.")
        await until(lambda: len(told) > REPORTED_IN_FULL)
        assert told.pop() == "And 1 more connection to 'numbers' was closed: 1 odd. The last one: one: wrong."
        # After a quiet period, the next one is reported in full again.
        await until(lambda: closed._timer is None)
        closed.add("two", "odd", ": wrong.")
        assert told[REPORTED_IN_FULL:] == ["The connection from two to 'numbers' was closed: wrong."]
        closed.close()
        assert len(told) == REPORTED_IN_FULL + 1

    asyncio.run(run())


def test_what_is_left_is_reported_at_the_end():
    async def run():
        told = []
        closed = ClosedConnections("numbers", told.append)
        for number in range(REPORTED_IN_FULL + 2):
            closed.add(f"peer {number}", "odd", ".")
        closed.close()
        assert told[REPORTED_IN_FULL:] == [
            f"And 2 more connections to 'numbers' were closed: 2 odd. The last one: peer {REPORTED_IN_FULL + 1}."
        ]

    asyncio.run(run())
