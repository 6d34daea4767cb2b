"""How many tasks a cluster has room for."""

import itertools

import pytest

from wallaroo.engine.spark import cluster
from wallaroo.engine.spark.cluster import tasks_of_a_stage, tasks_that_fit
from wallaroo.errors import SparkStartError


@pytest.fixture(autouse=True)
def _without_timeout(monkeypatch):
    for name in ("_POLL_SECONDS", "_SETTLED_SECONDS", "_TIMEOUT_SECONDS", "_LONG_TIMEOUT_SECONDS"):
        monkeypatch.setattr(cluster, name, getattr(cluster, name) / 100)


def coming(*numbers):
    """Return a function that returns these numbers one after the other, and then always the last."""
    each = itertools.chain(numbers, itertools.repeat(numbers[-1]))
    return lambda: next(each)


def test_all_slots_of_the_cluster_are_used_once_the_last_executor_has_registered():
    assert tasks_of_a_stage(coming(0, 0, 2, 2, 4, 5), stages=2, asked=None) == 2


def test_what_was_asked_for_is_waited_for_and_no_more_used():
    assert tasks_of_a_stage(coming(0, 2, 4, 12), stages=2, asked=3) == 3


@pytest.mark.parametrize(
    ("offered", "stages", "asked", "needed", "tasks", "there", "way_out"),
    [
        (
            5,
            2,
            4,
            "8",
            "2 stages, each with 4 workers",
            "5 are",
            "start with --worker-count 2",
        ),
        (
            1,
            2,
            None,
            "2",
            "2 stages, each with 1 worker",
            "1 is",
            "stop what else runs there",
        ),
        (2, 1, 3, "3", "one stage with 3 workers", "2 are", "start with --worker-count 2"),
        (0, 1, None, "1", "one stage with 1 worker", "0 are", "stop what else runs there"),
    ],
)
def test_too_few_slots_are_refused_clearly(offered, stages, asked, needed, tasks, there, way_out):
    with pytest.raises(SparkStartError) as refusal:
        tasks_of_a_stage(coming(offered), stages, asked)
    assert str(refusal.value) == (
        f"The cluster has too few cores: this application needs {needed} of them at the same time ({tasks}), "
        f"and {there} available to it. Give the cluster more, or {way_out}."
    )


def test_the_next_attempt_uses_the_executors_that_are_left():
    assert tasks_that_fit(coming(1, 2, 6), stages=2, most=2) == 2
    assert tasks_that_fit(coming(1, 3), stages=2, most=2) == 1
    assert tasks_that_fit(coming(0), stages=2, most=2) == 0
