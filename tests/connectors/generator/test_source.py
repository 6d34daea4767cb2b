"""A source that makes its own messages."""

import pickle
import time

import wallaroo
from wallaroo.ingress.client import IngressClient
from wallaroo.ingress.config import IngressConfig, endpoint_of
from wallaroo.ingress.lanes import Lane
from wallaroo.ingress.log import LogReader
from wallaroo.ingress.process import IngressProcess

from ...ingress.conftest import TOKEN, stays_at, wait_for_end  # noqa: TID252
from ...programs import instructions_for  # noqa: TID252 - tests are not installed


def make_generator(most):
    # A nested class is sent by value: the child need not be able to import this file.
    class Numbers:
        def initial_value(self):
            return 0

        def apply(self, value):
            return value + 1 if value + 1 < most else None

    return Numbers


class Generating:
    """An ingress process whose only source is a generator."""

    def __init__(self, directory, generator):
        self.log = directory / "numbers"
        source = wallaroo.GenSourceConfig(generator)
        endpoint = endpoint_of("numbers", source, str(self.log))
        program = instructions_for({"numbers": source}, directory)
        config = IngressConfig(
            [endpoint], str(directory / "control"), TOKEN, str(directory / "sequence"), program=program
        )
        self.notices = []
        self.process = IngressProcess(config, self.notices.append)
        self.client = IngressClient(config.control_path, TOKEN)

    def __enter__(self):
        assert self.process.start() == {}
        return self

    def __exit__(self, *_):
        self.client.close()
        self.process.stop()

    def wait_for(self, end):
        return wait_for_end(self.client, "numbers", end)

    def values(self):
        reader = LogReader(self.log)
        return [pickle.loads(payload) for _, some in reader.read(0, reader.end()) for payload in some]


def test_makes_every_value_once(tmp_path):
    with Generating(tmp_path, make_generator(2500)) as generating:
        generating.wait_for(2500)
        assert generating.values() == list(range(2500))


def test_resumes_after_a_restart(tmp_path):
    with Generating(tmp_path, make_generator(1000)) as generating:
        generating.wait_for(1000)
    with Generating(tmp_path, make_generator(3000)) as generating:
        generating.wait_for(3000)
        assert generating.values() == list(range(3000))


def test_resumes_where_the_log_is_ahead_of_the_recorded_position(tmp_path):
    with Generating(tmp_path, make_generator(1000)) as generating:
        generating.wait_for(1000)
    (tmp_path / "numbers" / "generator").unlink()
    with Generating(tmp_path, make_generator(1500)) as generating:
        generating.wait_for(1500)
        assert generating.values() == list(range(1500))


def test_does_not_run_far_ahead_of_the_engine(tmp_path):
    class Long:
        def initial_value(self):
            return b"x" * 100_000

        def apply(self, value):
            return value

    with Generating(tmp_path, Long) as generating:
        generating.wait_for(40)
        held = generating.client.status()["numbers"]["end"]
        while not stays_at(generating.client, "numbers", held, 1):
            held = generating.client.status()["numbers"]["end"]
        assert held < 1200
        generating.client.committed(0, {Lane("numbers"): held})
        generating.wait_for(held + 40)


def test_a_generator_that_fails_is_reported(tmp_path):
    class Bad:
        def initial_value(self):
            return 1

        def apply(self, value):
            return 1 // (value - 1)

    with Generating(tmp_path, Bad) as generating:
        while not generating.notices:
            time.sleep(0.005)
        assert generating.values() == [1]
        assert "ZeroDivisionError" in generating.notices[0]
        assert "'numbers'" in generating.notices[0]
