"""The largest messages that the memory is said to have room for pass through, also where several come at once."""

import hashlib
import random
import re

import pytest

from .harness import send


@pytest.mark.timeout(900)
def test_messages_as_large_as_they_may_be_pass_through(machida, receiver, tmp_path):
    sink = receiver()
    run = machida(
        *("--application-module", "large", "--in", "127.0.0.1:0,127.0.0.1:0", "--out", sink.address),
        *("--resilience-dir", tmp_path / "home", "--worker-count", 2, "--spark-conf", "spark.driver.memory=450m"),
    ).wait_until_ready()
    size = int(re.search(r"limited +to messages of (\d+) MiB", run.output)[1]) << 20
    messages = [random.Random(number).randbytes(size) for number in range(4)]
    for number, message in enumerate(messages):
        send(run.address(["one", "two"][number % 2]), [message])
    run.wait_until(lambda: sink.size >= 4 * size, "all of them", pause=0.1)
    # One byte more is too much, and said to be.
    with pytest.raises((OSError, AssertionError)):
        send(run.address("one"), [bytes(size + 1)])
    run.wait_until(lambda: "--max-message-size" in run.output, "the refusal")
    run.stop()
    data = sink.everything()
    assert len(data) == 4 * size
    parts = sorted(hashlib.sha256(data[low : low + size]).digest() for low in range(0, len(data), size))
    assert parts == sorted(hashlib.sha256(message).digest() for message in messages)
