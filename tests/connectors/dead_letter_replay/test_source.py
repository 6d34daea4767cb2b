"""The queue of dead letters that are to be replayed, and the source that takes them from there."""

import asyncio
import json
import os
import threading

import pytest

from wallaroo.connectors.dead_letter_replay.kind import ReplaySourceConfig
from wallaroo.connectors.dead_letter_replay.source import ReplayQueue
from wallaroo.ingress.client import IngressClient
from wallaroo.ingress.config import IngressConfig, endpoint_of
from wallaroo.ingress.log import LogReader, LogWriter
from wallaroo.ingress.process import IngressProcess
from wallaroo.ingress.server import IngressServer
from wallaroo.topology.model import REPLAYS

from ...ingress.conftest import TOKEN, until, wait_for_end  # noqa: TID252 - tests are not installed


def letters(*ids):
    return [{"id": each, "payload": f"payload of {each}"} for each in ids]


class Replaying:
    """An ingress process whose only source is that of the replays."""

    def __init__(self, directory):
        self.log = directory / "log"
        self.file = directory / "replays.jsonl"
        self.queue = ReplayQueue(self.file, self.log)
        endpoint = endpoint_of(REPLAYS, ReplaySourceConfig(str(self.file)), str(self.log))
        self.config = config = IngressConfig([endpoint], str(directory / "control"), TOKEN, str(directory / "sequence"))
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
        wait_for_end(self.client, REPLAYS, end)

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


def test_a_queue_that_was_deleted_starts_after_what_was_taken(replaying):
    replaying.queue.add(letters("a", "b"))
    with replaying:
        replaying.wait_for(2)
        replaying.file.unlink()
        replaying.queue.add(letters("c"))
        replaying.wait_for(3)
    assert replaying.taken() == ["a", "b", "c"]


def edited(line, **changes):
    return json.dumps({**json.loads(line), **changes}).encode()


SPOILED = {
    "cut off": lambda line: line[: len(line) // 2],
    "zeros": lambda line: bytes(len(line)),
    "not ASCII": lambda line: line.replace(b"payload of", b"pay\xffoad of"),
    "a list": lambda line: b"[1, 2]",
    "no number": lambda line: line.replace(b"number", b"mumber"),
    "a strange number": lambda line: edited(line, number="1"),
    "another letter": lambda line: edited(line, letter={"id": "z"}),
    "no letter": lambda line: edited(line, letter=3),
    "a number too low": lambda line: edited(line, number=0),
}


@pytest.mark.parametrize("how", SPOILED)
def test_a_damaged_line_is_reported_and_the_letters_after_it_keep_their_numbers(replaying, how):
    replaying.queue.add(letters("a", "b", "c", "d"))
    lines = replaying.file.read_bytes().splitlines()
    lines[1] = SPOILED[how](lines[1])
    replaying.file.write_bytes(b"\n".join(lines) + b"\n")
    assert list(replaying.queue.replays()) == ["a", "c", "d"]
    notices = []

    async def take():
        server = IngressServer(replaying.config, notices.append)
        try:
            await server.start()
            await until(lambda: server.ends() == {REPLAYS: 4})
            replaying.queue.add(letters("b"))
            await until(lambda: server.ends() == {REPLAYS: 5})
        finally:
            server.close()

    asyncio.run(asyncio.wait_for(take(), 60))
    reader = LogReader(replaying.log)
    assert reader.present(0, 5) == [(0, 1), (2, 5)]
    pieces = [piece for low, high in reader.present(0, 5) for piece in reader.read(low, high)]
    taken = [(first + n, json.loads(each)["id"]) for first, payloads in pieces for n, each in enumerate(payloads)]
    assert taken == [(0, "a"), (2, "c"), (3, "d"), (4, "b")]
    spoiled, gap = notices
    assert f"Damaged lines in {replaying.file} are skipped: 2." in spoiled
    assert "ended at message 1, but messages up to 2 were known" in gap


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
