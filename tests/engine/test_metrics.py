"""The metrics of a run: consistent at any moment, and plain data."""

import json
import threading
import time

import pytest

from wallaroo.engine.metrics import Delays, Metrics
from wallaroo.engine.state_manifest import StateSize
from wallaroo.ingress.block_sequence import Range, SequencedBlock
from wallaroo.ingress.source import SourceStatus

STATUS = SourceStatus(connections=2, start=0, end=9, backlog_bytes=30, log_bytes=120, total_messages=9, total_bytes=90)


def test_the_metrics_of_other_parts_are_included():
    counts = Metrics()
    counts.delivered(SequencedBlock(0, time.time_ns(), 60, (Range(0, 0, 6), Range(1, 0, 1))), ["p", "gone"])
    counts.restarted()
    found = counts.snapshot({"p": STATUS, "quiet": STATUS}, {"s": StateSize(3, 4, 50)}, state_files_bytes=70)
    of_ingress = {
        "accepted_messages": 9,
        "accepted_bytes": 90,
        "backlog_bytes": 30,
        "log_bytes": 120,
        "connections": 2,
    }
    assert found["sources"] == {
        "p": {"messages": 6, **of_ingress},
        "quiet": {"messages": 0, **of_ingress},
        "gone": {"messages": 1},
    }
    assert found["states"] == {"s": {"buckets": 3, "entries": 4, "bytes": 50}}
    assert (found["blocks"], found["restarts"], found["state_files_bytes"]) == (1, 1, 70)
    assert json.loads(json.dumps(found))["sources"] == found["sources"]


@pytest.mark.parametrize(
    ("seconds", "limit"),
    [(0, 0.001), (0.001, 0.001), (0.0011, 0.002), (0.016, 0.016), (0.0161, 0.032), (131.072, 131.072), (132, None)],
)
def test_a_delay_is_counted_where_it_belongs(seconds, limit):
    delays = Delays()
    delays.add(seconds)
    found = delays.as_data()
    assert [each for each in found["blocks"] if each[1]] == [(limit, 1)]
    assert (found["last_seconds"], found["longest_seconds"], found["sum_seconds"]) == (seconds, seconds, seconds)


def test_a_block_without_messages_has_no_delay():
    counts = Metrics()
    counts.delivered(SequencedBlock(0, 0, 0), [])
    assert (counts.blocks, counts.snapshot()["delays"]["sum_seconds"]) == (1, 0)


def test_a_snapshot_during_updates_is_consistent():
    counts = Metrics()
    done = threading.Event()

    def count():
        for number in range(5000):
            counts.sent(f"sink {number}", messages=1, size=2)
            counts.delivered(SequencedBlock(number, 0, 1, (Range(0, number, number + 1),)), ["p"])
        done.set()

    threading.Thread(target=count, daemon=True).start()
    while not done.is_set():
        found = counts.snapshot()
        blocks = found["blocks"]
        assert sum(number for _, number in found["delays"]["blocks"]) == blocks
        assert found["sources"].get("p", {"messages": 0})["messages"] == blocks
        assert all(sink == {"messages": 1, "bytes": 2} for sink in found["sinks"].values())
    assert counts.snapshot()["blocks"] == 5000
