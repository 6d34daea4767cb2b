"""The queue of dead letters that are to be replayed, and the source that takes them from there."""

import json
import os
import threading

import pytest

from wallaroo.api.generators import PickleDecoder
from wallaroo.ingress.client import IngressClient
from wallaroo.ingress.config import IngressConfig, SourceEndpoint
from wallaroo.ingress.log import LogReader, LogWriter
from wallaroo.ingress.process import IngressProcess
from wallaroo.ingress.replays import ReplayQueue
from wallaroo.topology.model import REPLAYS

from .conftest import TOKEN


def letters(*ids):
    return [{"id": each, "payload": f"payload of {each}"} for each in ids]


class Replaying:
    """An ingress process whose only source is that of the replays."""

    def __init__(self, directory):
        self.log = directory / "log"
        self.file = directory / "replays.jsonl"
        self.queue = ReplayQueue(self.file, self.log)
        endpoint = SourceEndpoint(REPLAYS, "", 0, PickleDecoder, str(self.log), queue=str(self.file))
        config = IngressConfig([endpoint], str(directory / "control"), TOKEN)
        self.notices = []
        self.process = IngressProcess(config, self.notices.append)
        self.client = IngressClient(config.control_path, TOKEN)

    def __enter__(self):
        # It listens nowhere.
        assert self.process.start() == {}
        return self

    def __exit__(self, *_):
        self.client.close()
        self.process.stop()

    def wait_for(self, end):
        while self.client.wait({REPLAYS: end - 1}, 10).ends[REPLAYS] < end:
            pass

    def taken(self):
        reader = LogReader(self.log)
        return [json.loads(payload)["id"] for _, some in reader.read(0, reader.end()) for payload in some]

    def kept(self):
        """Return the ids of the letters that the file has in full."""
        return [line["id"] for line in self.queue.lines() if line["letter"] is not None]


@pytest.fixture
def replaying(tmp_path):
    return Replaying(tmp_path)


def test_what_waits_is_taken_when_the_application_starts_and_once(replaying):
    replaying.queue.add(letters("a", "b"))
    replaying.queue.add(letters("c"))
    assert {each: replay.taken for each, replay in replaying.queue.replays().items()} == dict.fromkeys("abc", False)
    with replaying:
        replaying.wait_for(3)
    assert replaying.taken() == ["a", "b", "c"]
    assert {each: replay.taken for each, replay in replaying.queue.replays().items()} == dict.fromkeys("abc", True)
    with Replaying(replaying.log.parent) as again:
        again.queue.add(letters("d"))
        again.wait_for(4)
    assert again.taken() == ["a", "b", "c", "d"]
    assert again.notices == []


def test_what_is_added_while_it_runs_is_taken_too(replaying):
    with replaying:
        for number in range(3):
            replaying.queue.add(letters(f"x{number}", f"y{number}"))
            replaying.wait_for(2 * (number + 1))
    assert replaying.taken() == ["x0", "y0", "x1", "y1", "x2", "y2"]


def test_letters_that_were_taken_are_kept_by_name_only(replaying):
    replaying.queue.add(letters("a", "b"))
    assert replaying.kept() == ["a", "b"]
    with replaying:
        replaying.wait_for(2)
    replaying.queue.add(letters("c"))
    assert replaying.kept() == ["c"]
    assert list(replaying.queue.replays()) == ["a", "b", "c"]
    assert "payload of a" not in replaying.file.read_text()


def test_several_commands_at_once_lose_nothing(replaying):
    threads = [
        threading.Thread(target=lambda n=n: replaying.queue.add(letters(*(f"{n} {each}" for each in range(5)))))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with replaying:
        replaying.wait_for(40)
    taken = replaying.taken()
    assert sorted(taken) == sorted(f"{n} {each}" for n in range(8) for each in range(5))
    for n in range(8):
        assert [each for each in taken if each.startswith(f"{n} ")] == [f"{n} {each}" for each in range(5)]


def test_a_killed_process_takes_nothing_twice(replaying):
    with replaying:
        for number in range(5):
            replaying.queue.add(letters(str(number)))
            replaying.wait_for(number + 1)
            os.kill(replaying.process.pid, 9)
        replaying.queue.add(letters("last"))
        replaying.wait_for(6)
    assert replaying.taken() == ["0", "1", "2", "3", "4", "last"]


def test_a_queue_that_was_deleted_begins_behind_what_was_taken(replaying):
    replaying.queue.add(letters("a", "b"))
    with replaying:
        replaying.wait_for(2)
        replaying.file.unlink()
        replaying.queue.add(letters("c"))
        replaying.wait_for(3)
    assert replaying.taken() == ["a", "b", "c"]


def test_a_log_that_lost_its_end_gets_back_what_the_queue_still_has(replaying):
    replaying.queue.add(letters("a", "b", "c"))
    with replaying:
        replaying.wait_for(3)
    for path in replaying.log.iterdir():
        path.unlink()
    with LogWriter(replaying.log) as log:
        log.append([json.dumps(letter).encode() for letter in letters("a")])
    with Replaying(replaying.log.parent) as again:
        again.wait_for(3)
    assert again.taken() == ["a", "b", "c"]
