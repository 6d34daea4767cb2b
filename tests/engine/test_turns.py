"""How the sources of an application share a batch."""

from collections import Counter

import pytest

from wallaroo.engine.turns import Turns
from wallaroo.ingress.log_reader import LogReader
from wallaroo.ingress.log_writer import LogWriter


@pytest.fixture
def logs(tmp_path):
    """Return logs with messages of these sizes, each of them a block."""

    def make(**sizes):
        for source, of_source in sizes.items():
            with LogWriter(tmp_path / source) as log:
                for size in of_source:
                    log.append([bytes(size)])
        return {source: LogReader(tmp_path / source) for source in sizes}

    return make


def batches(logs, size):
    """Return what batch after batch takes, until nothing is left."""
    turns, taken, known = Turns(logs), [], Counter()
    while there := {source: (known[source], log.end()) for source, log in logs.items() if known[source] < log.end()}:
        ends = turns.shared(there, size)
        taken.append({source: end - known[source] for source, end in ends.items()})
        assert all(taken[-1].values())
        known.update(taken[-1])
    return taken


def test_a_source_alone_gets_all_of_it(logs):
    assert batches(logs(one=[1000] * 10, two=[]), 5050) == [{"one": 5}, {"one": 5}]


def test_sources_get_the_same_share(logs):
    taken = batches(logs(one=[1000] * 4, two=[100] * 20), 4100)
    assert taken[0] == {"one": 2, "two": 19}
    assert taken[1] == {"one": 2, "two": 1}


def test_no_two_large_messages_are_in_a_batch(logs):
    taken = batches(logs(one=[5000] * 3, two=[5000] * 2, three=[100] * 3), 6000)
    # And those that are small do not wait for all that are large.
    assert taken == [
        {"one": 1},
        {"three": 3},
        {"two": 1},
        {"one": 1},
        {"two": 1},
        {"one": 1},
    ]


def test_what_a_power_failure_has_taken_is_no_hindrance(logs, tmp_path):
    made = logs(one=[1000] * 3, two=[1000])
    with LogWriter(tmp_path / "one") as log:
        log.advance_to(10)
        log.append([bytes(1000)])
    assert batches(made, 100_000) == [{"one": 11, "two": 1}]
