"""Messages processed as they arrive, on Spark's real-time mode: whatever dies, the run itself goes on."""

import pytest

from .harness import busy_workers, family, send, send_at_the_same_time
from .test_going_on import Sequences, count_words_of_three_senders, expected, received, size, values_by_key


def more_messages(app, run, sent):
    """Send messages of three senders at once, and wait until all have come out."""
    streams = [app.messages.stream([f"{sender}{key}" for key in range(20)], 3000) for sender in "xyz"]
    send_at_the_same_time(run.address("steps"), *streams)
    sent += [message for stream in streams for message in stream]
    run.wait_until(lambda: app.steps.size >= size(sent), "all steps")


@pytest.mark.timeout(900)
def test_whatever_dies_everything_comes_out_once_and_in_order(machida, receiver, tmp_path):
    app = Sequences(machida, receiver, tmp_path)
    run = app.start("--real-time")
    counts = count_words_of_three_senders(app, run)
    sent = []
    more_messages(app, run, sent)

    # A worker in the middle of a block: the query starts again from the last commit.
    held, gate = app.hold(run, "gate")
    sent.append(held)
    for worker in busy_workers(run):
        worker.kill()
    gate.touch()
    more_messages(app, run, sent)

    # The JVM, with all workers: it is started again, in the same run.
    (jvm,) = [process for process in family(run) if process.name() == "java"]
    jvm.kill()
    send(run.address("steps"), sent_meanwhile := app.messages.stream(["meanwhile"], 1000))
    sent += sent_meanwhile
    more_messages(app, run, sent)
    assert "Spark's process has ended unexpectedly" in run.output
    run.stop()

    # All of it: the next run goes on from what was committed in good order.
    run = app.start("--real-time")
    more_messages(app, run, sent)
    run.kill()
    run = app.start("--real-time")
    more_messages(app, run, sent)
    run.stop()

    assert received(app.steps.everything()) == expected(sent)
    assert values_by_key(app.words.everything()) == counts
    assert "Traceback" not in run.output
