"""On a Spark cluster: a master and two workers as processes of their own."""

import random
import re
import sys
from collections import Counter
from pathlib import Path

import pyspark
import pytest

from wallaroo.engine.java import java_home

from .harness import APPS, Process, environment, send, values_by_key

SPARK = Path(pyspark.__file__).parent
ANIMALS = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay"]


@pytest.fixture
def cluster(tmp_path):
    """Start a cluster of two workers with one core each; return its address."""
    started = []
    settings = {
        "JAVA_HOME": java_home(tmp_path),
        "SPARK_HOME": str(SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_PUBLIC_DNS": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }

    def start(name, *arguments):
        command = [SPARK / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", "--webui-port", "0", *arguments]
        started.append(Process(command, cwd=tmp_path, env=environment(**settings)))
        return started[-1]

    master = start("master.Master", "--host", "127.0.0.1", "--port", "0")
    address = re.compile(r"Starting Spark master at (spark://127\.0\.0\.1:[1-9]\d*)")
    master.wait_until(lambda: address.search(master.output), "the master")
    url = address.search(master.output)[1]
    for number in range(2):
        place = ["--host", "127.0.0.1", "--work-dir", tmp_path / f"worker {number}"]
        start("worker.Worker", url, "--cores", "1", "--memory", "1g", *place)
    for worker in started[1:]:
        worker.wait_until(lambda worker=worker: "Successfully registered" in worker.output, "a worker")
    yield url
    for process in reversed(started):
        process.clean_up()


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
