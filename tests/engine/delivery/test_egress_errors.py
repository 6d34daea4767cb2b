"""The end of a batch in which user code failed: all of it counts, or, by policy, none of it."""

import json
import socket
import threading
from contextlib import closing

import pytest
from wallaroo.engine.transport.chunks import DEAD_LETTERS, Chunk, dump_records

from wallaroo.engine.delivery.egress import Egress
from wallaroo.engine.delivery.on_error import OnError
from wallaroo.engine.directory.home import Home
from wallaroo.errors import ErrorPolicyError
from wallaroo.topology.model import REPLAYS

PATIENCE = 60
RECORD = {"pipeline": "p", "step": "s", "message": "m", "error": "E: e", "traceback": "E: e", "source": "p"}


def sent(route, body):
    return Chunk(route, 0, 0, 0, 1, body)


def failed(*letters):
    return sent(DEAD_LETTERS, dump_records([RECORD | letter for letter in letters]))


@pytest.fixture
def server():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        yield server


@pytest.fixture
def start(make, server, tmp_path):
    plan = make.plan(make.pipeline("p", port=server.getsockname()[1]))

    def start_egress(on_error="dead-letter"):
        home, policy = Home(tmp_path), OnError.parse(on_error)
        return closing(Egress(plan, home, threading.Event(), lambda _: None, on_error=policy))

    return start_egress


@pytest.fixture
def write_offsets(tmp_path):
    """Write down where each batch ends, as Spark does."""

    def write(*batches):
        folder = tmp_path / "checkpoint" / "offsets"
        folder.mkdir(parents=True)
        for batch, ends in enumerate(batches):
            (folder / str(batch)).write_text("v1\n{}\n" + json.dumps({"nudges": 0, "sources": ends}))

    return write


@pytest.fixture
def kept(tmp_path):
    def read():
        path = tmp_path / "dead-letters.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    return read


def received(server):
    """Return what the next connection was sent; it has been closed by the sender."""
    connection, _ = server.accept()
    with connection, connection.makefile("rb") as stream:
        return stream.read()


@pytest.mark.parametrize("policy", ["fail", "2/h", "50%"])
def test_by_policy_nothing_of_a_batch_is_sent_or_kept(start, server, kept, write_offsets, policy):
    write_offsets({"p": 0}, {"p": 20}, {"p": 120})
    chunks = [sent(0, b"two "), failed(*({"position": number} for number in range(20, 100)))]
    with start(policy) as egress:
        egress.deliver(1, [sent(0, b"one ")])
        with pytest.raises(ErrorPolicyError, match=r"step 's' failed for the message m, from message .. of 'p'"):
            egress.deliver(2, chunks)
    assert (egress.errors, kept()) == (0, [])
    assert received(server) == b"one "
    with start() as mended:
        mended.deliver(2, chunks)
    assert (mended.errors, len(kept())) == (80, 80)
    assert received(server) == b"two "


def test_what_was_kept_before_is_not_judged_again(start, kept):
    with start() as egress:
        egress.deliver(1, [failed({})])
    with start("fail") as egress:
        egress.deliver(1, [failed({})])
        with pytest.raises(ErrorPolicyError):
            egress.deliver(2, [failed({})])
    assert len(kept()) == 1


def test_a_share_counts_the_messages_of_batches_without_errors(start, write_offsets):
    write_offsets({"p": 0}, {"p": 1000}, {"p": 1100})
    letters = failed(*[{"position": 1001}] * 10)
    with start("1%") as egress:
        egress.deliver(1, [])
        egress.deliver(2, [letters])
        assert egress.errors == 10


def test_a_share_of_the_batch_alone_would_be_too_much(start, write_offsets):
    write_offsets({"p": 0}, {"p": 1000}, {"p": 1100})
    letters = failed(*[{"position": 1001}] * 10)
    with start("1%") as egress, pytest.raises(ErrorPolicyError, match="10 dead letters for 100 messages"):
        egress.deliver(2, [letters])


def test_where_the_position_is_not_known_the_batch_is(start, kept, write_offsets):
    write_offsets({"p": 5, "q": 9}, {"p": 8, "q": 9}, {"p": 9, "q": 9, REPLAYS: 1})
    with start() as egress:
        egress.deliver(1, [failed({}, {"position": 6}, {"source": "q"})])
        # A message without a position may now be one that was replayed.
        egress.deliver(2, [failed({})])
    assert [(letter.get("position"), letter.get("positions")) for letter in kept()] == [
        (None, [5, 7]),
        (6, None),
        (None, None),
        (None, None),
    ]
