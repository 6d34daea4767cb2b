"""The end of a batch: each sink gets it once, and in order."""

import json
import socket
import threading
from contextlib import ExitStack, closing

import pytest

from wallaroo.connectors.base import StoppedError
from wallaroo.engine.chunks import DEAD_LETTERS, NUDGE, PRINTED, Chunk, dump_records
from wallaroo.engine.egress import Egress
from wallaroo.engine.home import Home

PATIENCE = 60
RECORD = {"pipeline": "p", "step": "s", "message": "m", "error": "E: e", "traceback": "E: e"}


def sent(route, body, number=1, part=0):
    return Chunk(route, 0, 0, part, number, body)


@pytest.fixture
def servers():
    """Return two servers, on neighbouring ports as the sinks of a pipeline have them."""
    while True:
        one = socket.create_server(("127.0.0.1", 0))
        try:
            other = socket.create_server(("127.0.0.1", one.getsockname()[1] + 1))
        except OSError:
            one.close()
            continue
        with one, other:
            yield one, other
        return


@pytest.fixture
def notices():
    return []


@pytest.fixture
def stopping():
    return threading.Event()


@pytest.fixture
def start(make, servers, tmp_path, notices, stopping):
    """Return a context with an egress for `p`, with two sinks, and `q`, whose sink is the first of these."""
    port = servers[0].getsockname()[1]
    plan = make.plan(make.pipeline("p", encoders=[str, str], port=port), make.pipeline("q", port=port))
    return lambda: closing(Egress(plan, Home(tmp_path), stopping, notices.append))


def accept_all(server):
    """Return what each connection that is waiting was sent; it has been closed by the sender."""
    received = []
    server.settimeout(0)
    while True:
        try:
            connection, _ = server.accept()
        except BlockingIOError:
            return received
        with connection:
            connection.settimeout(PATIENCE)
            data = b""
            while some := connection.recv(1 << 16):
                data += some
            received.append(data)


def test_sinks_with_one_address_share_a_connection(start, servers):
    with start() as egress:
        egress.deliver(0, [sent(0, b"p0 "), sent(0, b"p1 ", part=1), sent(1, b"other "), sent(2, b"q0 ", number=3)])
        egress.deliver(1, [sent(0, b"p2 "), sent(2, b"q1 ")])
    assert [accept_all(server) for server in servers] == [[b"p0 p1 q0 p2 q1 "], [b"other "]]
    assert egress.messages_out == 8


def test_a_batch_that_was_sent_is_not_sent_again_by_the_next_run(start, servers):
    with start() as first:
        first.deliver(0, [sent(0, b"a"), sent(1, b"A")])
        first.deliver(1, [sent(0, b"b")])
    with start() as second:
        second.deliver(1, [sent(0, b"b"), sent(1, b"B")])
        second.deliver(2, [sent(0, b"c")])
    assert [accept_all(server) for server in servers] == [[b"ab", b"c"], [b"A", b"B"]]


def test_dead_letters_are_kept_once(start, tmp_path, notices):
    with start() as first:
        bodies = [dump_records([RECORD, RECORD]), dump_records([RECORD])]
        first.deliver(4, [sent(DEAD_LETTERS, body) for body in bodies])
    with start() as second:
        second.deliver(4, [sent(DEAD_LETTERS, dump_records([RECORD, RECORD, RECORD]))])
        second.deliver(5, [sent(DEAD_LETTERS, dump_records([RECORD]))])
    assert (first.errors, second.errors) == (3, 1)
    lines = (tmp_path / "dead-letters.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [RECORD] * 4
    assert "Pipeline 'p', step 's' failed for the message m" in notices[0]


def test_printed_text_is_told_and_nudges_are_nothing(start, notices):
    with start() as egress:
        egress.deliver(0, [sent(PRINTED, "é\nsecond line\n".encode()), sent(NUDGE, b"", number=0)])
    assert notices == ["é\nsecond line"]


def test_stopping_leaves_the_batch_to_the_next_run(start, servers, stopping, tmp_path):
    for server in servers:
        server.close()
    stopping.set()
    with start() as egress, pytest.raises(StoppedError):
        egress.deliver(0, [sent(0, b"a")])
    assert (tmp_path / "ledger").read_text() == ""


def test_receivers_are_looked_for_before_there_is_anything_to_send(start, servers):
    with start() as egress, ExitStack() as connections:
        egress.connect()
        accepted = []
        for server in servers:
            server.settimeout(PATIENCE)
            accepted.append(connections.enter_context(server.accept()[0]))
        egress.deliver(0, [sent(0, b"one"), sent(1, b"two")])
        assert [connection.recv(10) for connection in accepted] == [b"one", b"two"]


def test_a_crash_between_sending_and_the_ledger_repeats_that_batch_and_no_other(start, servers, monkeypatch):
    class CrashError(BaseException):
        """The process is gone."""

    def crash(*_):
        raise CrashError

    with start() as egress:
        egress.deliver(0, [sent(0, b"one ")])
        with monkeypatch.context() as patched:
            patched.setattr("wallaroo.engine.ledger.Ledger.record", crash)
            with pytest.raises(CrashError):
                egress.deliver(1, [sent(0, b"two ")])
    with start() as egress:
        for batch, body in enumerate([b"one ", b"two ", b"three "]):
            egress.deliver(batch, [sent(0, body)])
    assert accept_all(servers[0]) == [b"one two ", b"two three "]
