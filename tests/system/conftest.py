"""Starts applications and receivers, and leaves nothing of them behind."""

import pytest

from .harness import Machida, Receiver

# The applications are programs of their own, which machida imports and not the test runner.
collect_ignore = ["apps"]


@pytest.fixture
def machida():
    """Start machida with these arguments."""
    started = []

    def start(*arguments, **options):
        run = Machida(*arguments, **options)
        started.append(run)
        return run

    yield start
    for run in started:
        run.clean_up()


@pytest.fixture
def receiver():
    """Make a receiver."""
    made = []

    def make():
        made.append(Receiver())
        return made[-1]

    yield make
    for each in made:
        each.clean_up()
