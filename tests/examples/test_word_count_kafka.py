"""The word count from topic to topic: its program, and its demo with a broker of its own."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest
from tests.processes import run_python
from tools.ivy import OfflineError

import wallaroo.testing

FOLDER = Path(__file__).parents[2] / "examples" / "word_count_kafka"
OPTIONS = [f"--kafka_{which}_{what}" for which in ("source", "sink") for what in ("topic=t", "brokers=localhost:9092")]


def load(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_word_is_counted_and_is_the_key_of_its_counts(monkeypatch):
    # States are saved, for which their module has to be found by its name.
    monkeypatch.setitem(sys.modules, "word_count", program := load(FOLDER / "word_count.py", "word_count"))
    arguments = [part for option in OPTIONS for part in option.split("=")]
    application = program.application_setup(arguments)
    outputs = wallaroo.testing.run(application, [b'"Why, hello!" world', b"", b"Hello  again"], encoded=True)
    assert sorted((output.key, bytes(output)) for output in outputs) == [
        (b"again", b"again => 1"),
        (b"hello", b"hello => 1"),
        (b"hello", b"hello => 2"),
        (b"why", b"why => 1"),
        (b"world", b"world => 1"),
    ]


def test_the_demo_counts_from_topic_to_topic():
    ran = run_python(FOLDER / "demo.py", "--lines", "300", code=None, timeout=400)
    if "cannot be downloaded" in ran.stdout and os.environ.get("CI") != "true":
        pytest.skip(ran.stdout.splitlines()[-1])
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "all counts are right" in ran.stdout


def test_without_the_jars_and_a_network_the_demo_says_so_in_a_sentence(monkeypatch, tmp_path):
    def offline():
        raise OfflineError("a page of what Ivy says")

    class Silent:
        def step(self, text):
            pass

    monkeypatch.setattr(sys, "path", [*sys.path])  # A demo finds what it imports by changing it.
    demo = load(FOLDER / "demo.py", "kafka_demo")
    monkeypatch.setattr("tools.kafka_jars.jars", offline)
    with pytest.raises(demo.Failure) as raised:
        demo.start_broker(tmp_path, Silent())
    assert str(raised.value) == ("the jars of a Kafka broker are not here, and cannot be downloaded without a network.")
