"""On a Spark cluster: a master and two workers as processes of their own."""

import random
import re
from collections import Counter

import pytest

from .cluster import Cluster
from .harness import APPS, send, values_by_key

ANIMALS = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay"]


@pytest.fixture
def cluster(tmp_path):
    """Start a cluster of two workers with one core each; return its address."""
    started = Cluster(tmp_path)
    yield started.url
    started.clean_up()


@pytest.mark.timeout(600)
def test_word_count_on_a_cluster_and_again_on_the_same_directory(cluster, machida, receiver, tmp_path):
    choose = random.Random(1)
    lines = [" ".join(choose.choices(ANIMALS, k=6)) for _ in range(20_000)]
    middle = len(lines) // 2
    sink = receiver()
    arguments = ["--in", "127.0.0.1:0", "--out", sink.address, "--resilience-dir", tmp_path / "home"]
    command = ["--application-module", "counting", *arguments, "--master", cluster]

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
    assert re.search(r"letters comes from \S*modules\.zip/letters\.py", run.output), run.output
    send_and_check(lines[middle:], lines)
    assert not (tmp_path / "home" / "dead-letters.jsonl").exists()
