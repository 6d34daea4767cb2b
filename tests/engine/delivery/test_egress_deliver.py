"""The outputs of a block: each sink gets them once, and in order."""

import json
import shutil
import socket
import threading
import time
from contextlib import ExitStack, closing, contextmanager
from itertools import count

import pytest
from tests.engine.delivery.recording_progress import RecordingProgress
from tests.processes import PATIENCE

from wallaroo.connectors.base import StoppedError
from wallaroo.connectors.tcp.confirmed_sink import ANSWER, HEADER, MAGIC
from wallaroo.engine.delivery.collector import Collector
from wallaroo.engine.delivery.egress import Egress
from wallaroo.engine.delivery.ledger import Ledger
from wallaroo.engine.directory.commit import Commits
from wallaroo.engine.directory.home import Home
from wallaroo.engine.transport.dead_letter_record import dump_records
from wallaroo.engine.transport.shuffle_format import DEAD_LETTERS, PRINTED, UNLISTED_KEYS, Chunk

RECORD = {"pipeline": "p", "step": "s", "message": "m", "error": "E: e", "traceback": "E: e"}


def sent(route, body, number=1, part=0):
    return Chunk(route, part, number, body)


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
    numbers = count()

    @contextmanager
    def start_egress(home=tmp_path, told=None, **options):
        commits = Commits(home / "commit.json", home / "states")
        with (
            closing(Collector(str(tmp_path / f"socket {next(numbers)}"), "token", commits)) as collector,
            closing(
                Egress(
                    plan,
                    Home(home),
                    collector,
                    commits,
                    RecordingProgress([] if told is None else told),
                    stopping,
                    notices.append,
                    **options,
                )
            ) as egress,
        ):
            yield egress

    return start_egress


def accept_one(server):
    """Yield what the next connection sends."""
    server.settimeout(PATIENCE)
    connection, _ = server.accept()
    with connection:
        connection.settimeout(PATIENCE)
        while some := connection.recv(1 << 20):
            yield some


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
    assert egress.metrics.messages_out == 8


def test_a_block_that_was_sent_is_not_sent_again_by_the_next_run(start, servers):
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
    assert (first.metrics.errors, second.metrics.errors) == (3, 1)
    lines = (tmp_path / "dead-letters.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert [record | {"id": 0} for record in records] == [RECORD | {"id": 0}] * 4
    assert len({record["id"] for record in records}) == 4
    assert "Pipeline 'p', step 's' failed for the message m" in notices[0]


def test_printed_text_is_shown_once(start, notices):
    with start() as egress:
        for _ in range(2):
            egress.deliver(0, [sent(PRINTED, "é\nsecond line\n".encode())])
    assert notices == ["é\nsecond line"]


def test_states_for_keys_that_were_not_listed_are_counted_once(start, notices):
    with start() as egress:
        for number in (0, 1, 1, 0):
            egress.deliver(number, [sent(UNLISTED_KEYS, b'{"votes": [6, "\'z\'"]}')])
        egress.sum_up()
    [told] = notices
    assert told.startswith("State 'votes': made 12 states for keys that were not listed, such as 'z', in this run.")


def test_stopping_leaves_the_block_to_the_next_run(start, servers, stopping, tmp_path):
    for server in servers:
        server.close()
    stopping.set()
    with start() as egress, pytest.raises(StoppedError):
        egress.deliver(0, [sent(0, b"a")])
    [line] = (tmp_path / "ledger").read_text().splitlines()
    assert line.startswith("id\t")


def test_receivers_are_connected_before_there_is_anything_to_send(start, servers):
    with start() as egress, ExitStack() as connections:
        egress.start()
        accepted = []
        for server in servers:
            server.settimeout(PATIENCE)
            accepted.append(connections.enter_context(server.accept()[0]))
        egress.deliver(0, [sent(0, b"one"), sent(1, b"two")])
        assert [connection.recv(10) for connection in accepted] == [b"one", b"two"]


def test_a_crash_between_sending_and_the_ledger_repeats_that_block_and_no_other(start, servers, monkeypatch, tmp_path):
    class CrashError(BaseException):
        """The process is gone."""

    def crash(*_):
        raise CrashError

    with start() as egress:
        egress.deliver(0, [sent(0, b"one ")])
        with monkeypatch.context() as patched:
            patched.setattr("wallaroo.engine.delivery.ledger.Ledger.record", crash)
            with pytest.raises(CrashError):
                egress.deliver(1, [sent(0, b"two ")])
        left = tmp_path / "left"
        left.mkdir()
        shutil.copy(tmp_path / "ledger", left / "ledger")
    with start(left) as egress:
        for block, body in enumerate([b"one ", b"two ", b"three "]):
            egress.deliver(block, [sent(0, body)])
    assert accept_all(servers[0]) == [b"one two ", b"two three "]


class TestKilledInTheMiddleOfABlock:
    """A copy of the ledger is what a crash leaves: the run that was killed, here, just does nothing more."""

    BODIES = tuple(bytes([65 + number]) * 1_000_000 for number in range(20))
    WHOLE = b"".join(BODIES)

    @pytest.fixture
    def killed(self, start, servers, stopping, tmp_path):
        """Return the home of a run that was killed when its receiver had read 5 MB of a block."""
        # Connections inherit it. By itself, the system may take in a whole block for a receiver that has read much.
        servers[0].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        with ExitStack() as stack:
            egress = stack.enter_context(start())
            chunks = [sent(0, body, part=part) for part, body in enumerate(self.BODIES)]

            def deliver():
                with pytest.raises(StoppedError):
                    egress.deliver(3, chunks)

            thread = threading.Thread(target=deliver)
            thread.start()
            stack.callback(thread.join, PATIENCE)
            connection = stack.enter_context(servers[0].accept()[0])
            stack.callback(stopping.set)
            with connection.makefile("rb") as stream:
                assert stream.read(5_000_000) == self.WHOLE[:5_000_000]
            name = f"127.0.0.1:{servers[0].getsockname()[1]}"
            left = tmp_path / "left"
            left.mkdir()
            # The receiver's machine has acknowledged what the receiver has read.
            while Ledger(shutil.copy(tmp_path / "ledger", left / "ledger")).part(name, 3).size < 5_000_000:
                time.sleep(0.01)
            yield left

    def sent_again(self, start, server, home, block, bodies):
        received = []
        reading = threading.Thread(target=lambda: received.extend(accept_one(server)))
        reading.start()
        with start(home) as egress:
            egress.deliver(block, [sent(0, body, part=part) for part, body in enumerate(bodies)])
        reading.join(PATIENCE)
        return b"".join(received)

    def test_the_next_run_sends_what_the_receivers_machine_had_not_acknowledged(self, killed, start, servers):
        rest = self.sent_again(start, servers[0], killed, 3, self.BODIES)
        assert self.WHOLE.endswith(rest)
        assert len(rest) % 1_000_000 == 0
        assert len(rest) <= 15_000_000

    def test_another_block_is_sent_as_a_whole(self, killed, start, servers):
        assert self.sent_again(start, servers[0], killed, 4, self.BODIES) == self.WHOLE

    def test_a_block_that_came_out_different_is_sent_as_a_whole(self, killed, start, servers):
        bodies = [b"!" + self.BODIES[0][1:], *self.BODIES[1:]]
        assert self.sent_again(start, servers[0], killed, 3, bodies) == b"".join(bodies)


class TestEffectivelyOnce:
    def answering(self, server, connections=1):
        """Take framed blocks and confirm them, in a thread; return the list they are put into."""
        blocks = []

        def run():
            for _ in range(connections):
                connection, _ = server.accept()
                with connection, connection.makefile("rb") as stream:
                    while header := stream.read(HEADER.size):
                        magic, stream_of, number, size = HEADER.unpack(header)
                        assert magic == MAGIC
                        blocks.append((stream_of, number, stream.read(size)))
                        connection.sendall(ANSWER.pack(number))

        thread = threading.Thread(target=run)
        thread.start()
        return blocks, thread

    def test_blocks_carry_their_ids(self, start, servers):
        (one, thread), (other, other_thread) = self.answering(servers[0], 2), self.answering(servers[1])
        with start(effectively_once=True) as egress:
            egress.deliver(0, [sent(0, b"p0 "), sent(1, b"other"), sent(2, b"q0 ")])
            egress.deliver(2, [sent(0, b"p2 ")])
        with start(effectively_once=True) as egress:
            egress.deliver(2, [sent(0, b"p2 ")])
            egress.deliver(3, [sent(2, b"q3 ")])
        thread.join(PATIENCE)
        other_thread.join(PATIENCE)
        [stream] = {stream for stream, _, _ in one}
        assert one == [(stream, 0, b"p0 q0 "), (stream, 2, b"p2 "), (stream, 3, b"q3 ")]
        [(other_stream, number, body)] = other
        assert (number, body) == (0, b"other")
        assert other_stream != stream

    def test_no_receiver_gets_a_block_that_a_power_failure_could_still_take(self, start, servers):
        happened, thread = self.answering(servers[0])
        with start(told=happened, effectively_once=True) as egress:
            for number in range(3):
                egress.deliver(number, [sent(0, b"p")])
        thread.join(PATIENCE)
        assert [event[:2] if event[0] == "on disk" else event[1] for event in happened] == [
            ("on disk", 2),
            0,
            1,
            ("on disk", 4),
            2,
        ]

    def test_a_state_that_starts_afresh_is_another_stream(self, start, servers, tmp_path):
        blocks, thread = self.answering(servers[0], 2)
        for name in ("home", "new home"):
            (tmp_path / name).mkdir()
            with start(tmp_path / name, effectively_once=True) as egress:
                egress.deliver(0, [sent(0, b"first")])
        thread.join(PATIENCE)
        [(before, *_), (after, *_)] = blocks
        assert before != after


def test_nothing_is_sent_that_could_not_be_recorded(start, servers, monkeypatch):
    with start() as egress:
        egress.deliver(0, [sent(0, b"one ")])
        with monkeypatch.context() as full:
            full.setattr("wallaroo.engine.delivery.ledger._ROOM_FOR_A_BLOCK", 1 << 61)
            with pytest.raises(OSError, match="File too large"):
                egress.deliver(1, [sent(0, b"two ")])
        egress.deliver(1, [sent(0, b"two ")])
    assert accept_all(servers[0]) == [b"one two "]
