"""Messages that become hundreds, with a state that is slow and a receiver that takes nothing: memory is bounded."""

import io
from collections import Counter, defaultdict, deque

import psutil
import pytest

from .harness import busy_workers, jvm_of, send

COPIES = 200
MESSAGES = [f"{'x' * 1000} {number} {'abcdefgh'[number % 8]}" for number in range(1500)]
HEAP = "450m"
"""Spark starts with no less, and all that the messages become does not fit into it."""
GROWTH = 2 * COPIES * (512 << 10)
"""What the driver may need for a full block that is being sent: two thirds of what the messages become."""


def wait_until_workers_wait(run):
    """Wait until the workers do next to nothing: there is no room, or no file yet."""
    last = 0.0

    def wait():
        nonlocal last
        before, last = last, sum(sum(worker.cpu_times()[:2]) for worker in busy_workers(run))
        return last - before < 0.1

    run.wait_until(wait, "workers that wait", pause=1.0)


@pytest.mark.timeout(600)
def test_what_becomes_hundreds_waits_for_a_slow_state_and_a_slow_receiver(machida, receiver, tmp_path):
    sink = receiver()
    sink.hold_at(0)
    begin = tmp_path / "begin"
    run = machida(
        *("--application-module", "fan_out", "--in", "127.0.0.1:0", "--out", sink.address, "--worker-count", 2),
        *("--resilience-dir", tmp_path / "home", "--spark-conf", f"spark.driver.memory={HEAP}"),
        *("--copies", COPIES, "--states", 2, "--begin", begin),
    ).wait_until_ready()
    jvm = jvm_of(run)
    send(run.address("Copies"), MESSAGES)
    wait_until_workers_wait(run)
    before = psutil.Process(run.pid).memory_info().rss
    begin.touch()
    run.wait_until(lambda: sink.connections, "the receiver's connection")
    wait_until_workers_wait(run)
    assert psutil.Process(run.pid).memory_info().rss - before < GROWTH
    sink.hold_at(None)

    copies = [f"{copy} {message}" for message in MESSAGES for copy in range(COPIES)]
    seen = Counter()
    for at, text in enumerate(copies):
        seen[text[-1]] += 1
        copies[at] = f"{seen[text[-1]]} " * 2 + text
    run.wait_until(lambda: sink.size >= sum(len(text) + 1 for text in copies), "everything")
    assert jvm == jvm_of(run)
    assert "Processing failed" not in run.output
    run.stop()
    [received] = sink.connections
    by_key = defaultdict(deque)
    for text in copies:
        by_key[text[-1]].append(text)
    for line in io.BytesIO(received):
        text = line.decode().rstrip("\n")
        assert text == by_key[text[-1]].popleft()
    assert not any(by_key.values())
