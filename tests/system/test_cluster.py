"""On a Spark cluster: a master and two workers as processes of their own."""

import random
import re
import threading
from collections import Counter

import pytest

from .cluster import Cluster
from .harness import APPS, ingress_of, refuses, send, values_by_key
from .test_resume import Sequences, expected, received, size

ANIMALS = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Start a cluster of two workers with two cores each."""
    started = Cluster(tmp_path_factory.mktemp("cluster"), cores=2)
    yield started
    started.clean_up()


@pytest.mark.timeout(600)
def test_word_count_on_a_cluster_and_again_on_the_same_directory(cluster, machida, receiver, tmp_path):
    choose = random.Random(1)
    lines = [" ".join(choose.choices(ANIMALS, k=6)) for _ in range(20_000)]
    middle = len(lines) // 2
    sink = receiver()
    arguments = ["--in", "127.0.0.1:0", "--out", sink.address, "--resilience-dir", tmp_path / "home"]
    command = ["--application-module", "counting", *arguments, "--master", cluster.url]

    def send_and_check(part, so_far):
        totals = Counter(word for line in so_far for word in line.split(" "))
        counts = {word: list(range(1, total + 1)) for word, total in totals.items()}
        size = sum(len(f"{word} => {count}\n") for word in counts for count in counts[word])
        run = machida(*command, folder=APPS / "cluster").wait_until_ready()
        send(run.address("Words"), ["where", *part])
        run.wait_until(lambda: sink.size >= size, "all counts")
        run.wait_until(lambda: "letters comes from" in run.output, "what was printed")
        run.stop()
        assert values_by_key(sink.everything()) == counts
        return run

    run = send_and_check(lines[:middle], lines[:middle])
    # Machines of a cluster do not have the folder of the application: its modules travel with it.
    for module in ("letters", "late"):
        assert re.search(rf"{module} comes from \S*modules\.zip/{module}\.py", run.output), run.output
    send_and_check(lines[middle:], lines)
    assert not (tmp_path / "home" / "dead-letters.jsonl").exists()


def send_and_wait(app, run, sent, key):
    """Send messages, and wait until all that has been sent has come out."""
    stream = app.messages.stream([f"{key}{number}" for number in range(20)], 4000)
    send(run.address("steps"), stream)
    sent += stream
    run.wait_until(lambda: app.steps.size >= size(sent), "all steps")


def kill_while_messages_flow(app, run, sent, key, kill):
    """Kill something in the middle of a stream of messages; return when all of them have come out."""
    stream = app.messages.stream([f"{key}{number}" for number in range(20)], 120_000, "-" * 50)
    before = app.steps.size
    sender = threading.Thread(target=send, args=[run.address("steps"), stream])
    sender.start()
    run.wait_until(lambda: app.steps.size > before, "the first of them")
    assert app.steps.size - before < size(stream)
    kill()
    sender.join()
    sent += stream
    run.wait_until(lambda: app.steps.size >= size(sent), "all steps")


@pytest.mark.timeout(900)
def test_on_a_cluster_everything_is_output_once_and_in_order_after_any_death(cluster, machida, receiver, tmp_path):
    app = Sequences(machida, receiver, tmp_path)
    sent = []
    run = app.start("--master", cluster.url)
    send_and_wait(app, run, sent, "first")
    assert len(cluster.executors()) == 2

    # After a restart, workers find only the states in the directory: machines may lack the rest of it.
    (app.home / "plan.json").unlink()
    kill_while_messages_flow(app, run, sent, "executor", cluster.executors()[0].kill)
    assert re.search(r"executor \d of the cluster has ended .* It resumes from the last commit", run.output), run.output
    send_and_wait(app, run, sent, "then")

    # The process that accepts connections is found at the same address when it is there again.
    held, gate = app.hold(run, "gate")
    sent.append(held)
    (ingress,) = ingress_of(run)
    ingress.kill()
    ingress.wait()
    gate.touch()
    run.wait_until(lambda: not refuses(run.address("steps")), "another one")
    send_and_wait(app, run, sent, "later")
    run.stop()

    run = app.start("--master", cluster.url)
    send_and_wait(app, run, sent, "again")
    run.stop()
    assert received(app.steps.everything()) == expected(sent)
    assert values_by_key(app.numbers.everything()) == app.messages.numbers()
    assert "Traceback" not in run.output


@pytest.mark.timeout(600)
def test_more_workers_than_the_cluster_has_cores_for_are_refused(cluster, machida, receiver, tmp_path):
    arguments = ["--in", "127.0.0.1:0", "--out", receiver().address, "--resilience-dir", tmp_path / "home"]
    command = ["--application-module", "counting", *arguments, "--master", cluster.url]
    run = machida(*command, "--worker-count", "3", folder=APPS / "cluster")
    assert run.exit_code() == 6
    assert (
        "The cluster has too few cores: this application needs 6 of them at the same time (2 stages, each with 3 "
        "workers), and 4 are available to it. Give the cluster more, or start with --worker-count 2."
    ) in run.output
    assert "Traceback" not in run.output
