"""Windows made by the application itself: one state for all messages, so that their order is everything."""

import json
import random

import pytest

from .harness import dead_letters, frame, payload_of, send, unframed

LINE = '64.242.88.{} - - [{:02}/Mar/2004:{:02}:24:16 -0800] "GET /page/{} HTTP/1.1" {} {}\n'


def log_of_days(days, lines_a_day):
    """Return the messages, each with the (day, code) that it counts for, or None for the end of a day."""
    choose = random.Random(11)
    log = []
    for day in range(1, days + 1):
        for number in range(lines_a_day):
            code = choose.choice(["200"] * 6 + ["302", "401", "404", "500"])
            line = LINE.format(choose.randrange(256), day, number * 24 // lines_a_day, number, code, 4924)
            log.append((line, (day, code)))
        log.append(("END_OF_DAY", None))
    return log


def summaries(log):
    """Return the outputs for a log: after each day its codes with their counts, in the order in which they came."""
    found, today = [], {}
    for _, counted in log:
        if counted is None:
            found.append(json.dumps(today).encode())
            today = {}
        else:
            today[counted[1]] = today.get(counted[1], 0) + 1
    return found


@pytest.mark.timeout(600)
def test_days_are_summed_up_in_order_also_when_a_stop_falls_into_one(machida, receiver, tmp_path):
    log = log_of_days(24, 2500)
    middle = len(log) // 2 + 1000
    before, after = summaries(log[:middle]), summaries(log)
    stray = LINE.format(1, 30, 12, "stray", "200", 1)
    sink = receiver()
    command = ["--application-module", "logfiles", "--in", "127.0.0.1:0", "--out", sink.address]
    command += ["--resilience-dir", tmp_path / "home"]

    run = machida(*command).wait_until_ready()
    send(run.address("convert"), [message for message, _ in log[:middle]])
    run.wait_until(lambda: sink.size >= sum(len(frame(summary)) for summary in before), "the first days")
    run.stop()
    assert unframed(sink.everything()) == before

    run = machida(*command).wait_until_ready()
    assert "resuming where it stopped" in run.output
    rest = [message for message, _ in log[middle:]]
    send(run.address("convert"), [stray, *rest[:500], stray, *rest[500:]])
    run.wait_until(lambda: sink.size >= sum(len(frame(summary)) for summary in after), "the other days")
    run.stop()

    assert unframed(sink.everything()) == after
    letters = dead_letters(tmp_path / "home")
    assert len(letters) == 2
    assert all(stray.encode() in payload_of(letter) for letter in letters)
    assert {letter["error"] for letter in letters} == {"ValueError: a line of 30/Mar/2004 among those of 13/Mar/2004"}
