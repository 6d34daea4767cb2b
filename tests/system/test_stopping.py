"""Stopping while the receiver is away: at once, with exit code 0, and nothing is lost."""

import json
import signal

import pytest

from .harness import Receiver, messages_planned, send, unused_address

WORDS = ["why", "hello", "world"]


@pytest.mark.timeout(600)
def test_without_a_receiver_and_during_the_start(machida, tmp_path):
    address = unused_address()
    command = ["--application-module", "word_count", "--in", "127.0.0.1:0", "--out", address]
    command += ["--resilience-dir", tmp_path / "home"]
    run = machida(*command).wait_until_ready()
    run.wait_until(lambda: f"Waiting for a receiver at {address}" in run.output, "missing the receiver")
    send(run.address("Split and Count"), WORDS)
    run.wait_until(lambda: messages_planned(tmp_path / "home", "Split and Count"), "a block for the receiver")
    run.ask_to_stop(signal.SIGINT)
    run.stop()
    assert "Stopped: " in run.output

    again = machida(*command)
    again.wait_until(lambda: "finishing   what the last run had" in again.output, "going on with what was left")
    again.ask_to_stop(signal.SIGINT)
    again.stop()
    assert "successfully initialized" not in again.output

    receiver = Receiver(address)
    try:
        last = machida(*command).wait_until_ready()
        last.wait_until(lambda: receiver.size >= len("why => 1\nhello => 1\nworld => 1\n"), "the counts")
        last.stop()
        counts = receiver.everything().decode().splitlines()
    finally:
        receiver.clean_up()
    assert sorted(counts) == ["hello => 1", "why => 1", "world => 1"]
    counted = json.loads((tmp_path / "home" / "logs" / "counts.json").read_text())
    # All was accepted by the first run.
    source = counted["sources"]["Split and Count"]
    assert (source["messages"], source["accepted_messages"], source["backlog_bytes"]) == (3, 0, 0)
    assert counted["sinks"] == {address: {"messages": 3, "bytes": receiver.size}}
    # Words are counted by their first letter.
    assert sum(state["buckets"] for state in counted["states"].values()) == len("hw")
