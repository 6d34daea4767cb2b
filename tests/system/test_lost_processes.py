"""Spark's own processes die in the middle of a block: it is computed again, and the application goes on by itself."""

import pytest

from .harness import busy_workers, family, send
from .test_going_on import Sequences, expected, outcome, received, size


@pytest.mark.timeout(600)
def test_a_killed_worker_and_a_killed_jvm(machida, receiver, tmp_path):
    app = Sequences(machida, receiver, tmp_path)
    run = app.start()
    before = app.messages.stream(["a", "b", "c"], 3000)
    send(run.address("steps"), before)
    run.wait_until(lambda: app.steps.size >= size(before), "the first messages")

    held, gate = app.hold(run, "gate 1")
    waiting = gate.with_name(gate.name + ".waiting")
    waiting.unlink()
    for worker in busy_workers(run):
        worker.kill()
    run.wait_until(waiting.exists, "the same message at the gate again")
    gate.touch()
    after = app.messages.stream(["a", "b", "c"], 3000)
    send(run.address("steps"), after)
    run.wait_until(lambda: app.steps.size >= size([*before, held, *after]), "the rest")

    last, gate = app.hold(run, "gate 2")
    (jvm,) = [process for process in family(run) if process.name() == "java"]
    jvm.kill()
    gate.touch()
    run.wait_until(lambda: app.steps.size >= size([*before, held, *after, last]), "the message at the gate")
    assert "Spark's process has ended unexpectedly: it was killed, by somebody or, for lack of memory," in run.output
    run.wait_until(lambda: run.output.count("The application goes on.") >= 2, "going on")
    run.stop()
    assert "Traceback" not in run.output
    lines = app.steps.everything()
    assert received(lines) == expected([*before, held, *after, last])
    assert lines.decode().endswith(outcome(last))
