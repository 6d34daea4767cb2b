"""Processes die in the middle of a block: it is computed again, and the application continues by itself."""

import pytest

from .harness import busy_workers, family, kill_all, send, send_at_the_same_time
from .test_resume import Sequences, count_words_of_three_senders, expected, outcome, received, size, values_by_key


def more_messages(app, run, sent):
    """Send messages of three senders at once, and wait until all have come out."""
    streams = [app.messages.stream([f"{sender}{key}" for key in range(20)], 3000) for sender in "xyz"]
    send_at_the_same_time(run.address("steps"), *streams)
    sent += [message for stream in streams for message in stream]
    run.wait_until(lambda: app.steps.size >= size(sent), "all steps")


def kill_workers(app, run, sent):
    """Kill workers in the middle of a block: the query starts again from the last commit."""
    held, gate = app.hold(run, "gate 1")
    sent.append(held)
    waiting = gate.with_name(gate.name + ".waiting")
    waiting.unlink()
    kill_all(busy_workers(run))
    run.wait_until(waiting.exists, "the same message at the gate again")
    gate.touch()
    more_messages(app, run, sent)
    run.wait_until(lambda: run.output.count("The application has resumed.") >= 1, "going on")


def kill_jvm(app, run, sent):
    """Kill the JVM, with all workers, in the middle of a block: it is started again, in the same run."""
    held, gate = app.hold(run, "gate 2")
    (jvm,) = [process for process in family(run) if process.name() == "java"]
    jvm.kill()
    meanwhile = app.messages.stream(["meanwhile"], 1000)
    send(run.address("steps"), meanwhile)
    before = size(sent)
    sent += [held, *meanwhile]
    gate.touch()
    run.wait_until(lambda: app.steps.size >= size(sent), "the message at the gate, and what came meanwhile")
    came = b"".join(map(bytes, app.steps.connections))[before:].decode()
    assert came == "".join(map(outcome, [held, *meanwhile]))
    assert (
        "Spark's process has ended unexpectedly: it was killed by a user, or by the system for lack of memory"
        in run.output
    )
    run.wait_until(lambda: run.output.count("The application has resumed.") >= 2, "going on once more")


@pytest.mark.timeout(900)
def test_everything_is_output_once_and_in_order_after_any_death(machida, receiver, tmp_path):
    app = Sequences(machida, receiver, tmp_path)
    run = app.start()
    counts = count_words_of_three_senders(app, run)
    sent = []
    more_messages(app, run, sent)
    kill_workers(app, run, sent)
    kill_jvm(app, run, sent)
    more_messages(app, run, sent)
    assert "Traceback" not in run.output

    # All of it, when everything is delivered and not all of it committed.
    run.kill()
    run = app.start()
    more_messages(app, run, sent)
    run.stop()
    assert "Traceback" not in run.output
    assert received(app.steps.everything()) == expected(sent)
    assert values_by_key(app.words.everything()) == counts
