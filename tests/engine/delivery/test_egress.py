"""The delivery of blocks: each once, whatever happens to the query."""

import socket
import threading
import tracemalloc
from array import array
from types import SimpleNamespace

import pytest
from tests.engine.delivery.recording_progress import RecordingProgress

from wallaroo.engine.delivery.collector import Collector, Epoch, Expected
from wallaroo.engine.delivery.egress import Egress
from wallaroo.engine.directory.commit import Commits
from wallaroo.engine.directory.home import Home
from wallaroo.engine.state_manifest import Place, StoredHead
from wallaroo.engine.transport.dead_letter_record import dump_records
from wallaroo.engine.transport.shuffle_format import BLOCK, DEAD_LETTERS, PRINTED, Chunk, pack_share
from wallaroo.engine.transport.task_channel import TaskChannel
from wallaroo.ingress.block_sequence import Range, SequencedBlock
from wallaroo.ingress.lanes import Lane

HEAD = StoredHead(b"[1]", {1: Place("file", 0)})
LETTER = {"pipeline": "p", "step": "s", "error": "E: x", "traceback": "E: x", "message": "m"}


@pytest.fixture
def server():
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


@pytest.fixture
def egress(make, tmp_path, server, request):
    """Yield the egress of an application with one sink, with all that belongs to it; the param is a kind of source."""
    home = Home(tmp_path / "home")
    home.open()
    told, notices = [], []
    plan = make.plan(make.pipeline("p", port=server.getsockname()[1]))
    plan.sources = ["p"]
    plan.inputs = {"p": {"kind": getattr(request, "param", "tcp")}}
    commits = Commits(tmp_path / "commit", tmp_path / "states")
    collector = Collector(str(tmp_path / "socket"), "token", commits)
    made = Egress(plan, home, collector, commits, RecordingProgress(told), threading.Event(), notices.append)
    made.start()

    def begin(attempt):
        return made.begin(attempt, Expected(1, 1, lambda _: (0, 0)))

    yield SimpleNamespace(
        itself=made, begin=begin, told=told, notices=notices, commits=commits, home=home, collector=collector
    )
    made.close()
    collector.close()
    home.close()


@pytest.fixture
def task(egress):
    """Return a function that makes the line of a task."""
    lines = []

    def make(attempt, partition=0):
        lines.append(TaskChannel(egress.collector.address, "token", attempt, 0, partition))
        return lines[-1]

    yield make
    for line in lines:
        line.close()


def received(server, size):
    """Return the first bytes that the sink has been sent."""
    server.settimeout(20)
    connection, _ = server.accept()
    with connection, connection.makefile("rb") as stream:
        return stream.read(size)


def share(number, *chunks, messages=(0, 1)):
    return pack_share([Chunk(BLOCK, 0, 0, SequencedBlock(number, 0, 1, (Range(0, *messages),)).pack()), *chunks])


def output(text):
    return Chunk(0, 0, 1, text, array("I", [len(text)]))


def wait_until(condition):
    ready = threading.Event()
    for _ in range(2000):
        if condition():
            return
        ready.wait(0.01)
    raise AssertionError("it did not happen")


def test_blocks_are_delivered_in_order_and_reported(egress, task, server):
    egress.begin("one")
    line = task("one")
    line.output(1, share(1, output(b"second")))
    line.output(0, share(0, output(b"first "), Chunk(PRINTED, 0, 0, b"hello\n")))
    assert received(server, 12) == b"first second"
    wait_until(lambda: ("delivered", 2) in egress.told)
    assert "hello" in egress.notices


def test_what_has_been_delivered_is_not_delivered_again_after_a_failure(egress, task, server):
    for attempt in ("one", "two"):
        assert egress.begin(attempt) == 0
        letters = Chunk(DEAD_LETTERS, 0, 1, dump_records([LETTER]))
        line = task(attempt)
        line.output(0, share(0, output(b"once "), letters, Chunk(PRINTED, 0, 0, b"hello\n")))
        line.output(1, share(1))
        wait_until(lambda: ("delivered", 2) in egress.told)
        egress.told.clear()
    line.output(2, share(2, output(b"end")))
    assert received(server, 8) == b"once end"
    assert len(egress.home.dead_letters.read_text().splitlines()) == 1
    assert egress.notices.count("hello") == 1


def test_an_epoch_is_committed_when_all_before_it_is_delivered(egress, task):
    egress.begin("one")
    line, other = task("one"), task("one", partition=1)
    line.saved(1, {Lane(0): 1}, {("s", 0): HEAD})
    assert egress.commits.block == 0
    other.output(0, share(0))
    wait_until(lambda: egress.itself.metrics.commits == 1)
    assert (egress.commits.block, egress.commits.heads) == (1, {("s", 0): HEAD})
    wait_until(lambda: egress.told == [("delivered", 1), ("committed", 1, {Lane("p"): 1})])


@pytest.mark.parametrize("egress", ["extension"], indirect=True)
def test_nothing_is_committed_before_the_log_is_on_the_disk(egress, task):
    egress.begin("one")
    line = task("one")
    line.output(0, share(0))
    line.saved(1, {Lane(0): 1}, {})
    wait_until(lambda: ("committed", 1, {Lane("p"): 1}) in egress.told)
    assert [what for what, *_ in egress.told] == ["delivered", "on disk", "committed"]


def test_what_has_been_delivered_after_an_epoch_is_not_committed_with_it(egress, task):
    egress.begin("one")
    line = task("one")
    for number in range(3):
        line.output(number, share(number, messages=(number, number + 1)))
    wait_until(lambda: ("delivered", 3) in egress.told)
    line.saved(2, {Lane(0): 2, Lane(0, 4): 9}, {})
    wait_until(lambda: egress.itself.metrics.commits == 1)
    assert (egress.commits.block, egress.commits.ends) == (2, {Lane("p"): 2, Lane("p", 4): 9})


def test_a_long_epoch_does_not_fill_the_memory(egress):
    tracemalloc.start()
    for number in range(3000):
        block = SequencedBlock(number, 0, 1, (Range(0, number, number + 1),))
        egress.itself.deliver(number, [Chunk(BLOCK, 0, 0, block.pack())])
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 100_000


def test_an_epoch_of_an_earlier_attempt_is_not_committed(egress):
    egress.begin("one")
    egress.begin("two")
    egress.itself._commit(Epoch("one", 5, {}, {("s", 0): HEAD}, [LETTER]))
    assert (egress.commits.block, egress.commits.heads) == (0, {})
    assert not egress.home.dead_letters.exists()


def test_a_recomputed_block_is_not_judged_again(egress, task, server):
    judged = []
    egress.itself._policy = SimpleNamespace(judge=lambda letters, messages, of: judged.append((of, messages)))
    for attempt in ("one", "two"):
        egress.begin(attempt)
        line = task(attempt)
        for number in range(3):
            line.output(number, share(number, messages=(number, number + 1)))
        wait_until(lambda: egress.told.count(("delivered", 3)) == (1 if attempt == "one" else 2))  # noqa: B023
    assert judged == [(0, 1), (1, 1), (2, 1)]


def test_everything_is_counted_once_even_if_it_is_recomputed(egress, task, server):
    counts = egress.itself.metrics
    for attempt in ("one", "two"):
        egress.begin(attempt)
        line = task(attempt)
        letters = Chunk(DEAD_LETTERS, 0, 1, dump_records([LETTER]))
        egress.told.clear()
        line.output(0, share(0, output(b"three"), letters))
        wait_until(lambda: ("delivered", 1) in egress.told)
    line.saved(1, {Lane(0): 1}, {})
    wait_until(lambda: counts.commits == 1)
    [sink] = counts.sent_messages
    found = counts.snapshot()
    assert found.pop("seconds") > 0
    assert sum(blocks for _, blocks in found.pop("delays")["blocks"]) == 1
    assert found == {
        "blocks": 1,
        "commits": 1,
        "restarts": 0,
        "sources": {"p": {"messages": 1}},
        "sinks": {sink: {"messages": 1, "bytes": 5}},
        "dead_letters": {"p: s": 1},
        "states": {},
        "state_files_bytes": 0,
    }
    assert received(server, 5) == b"three"
