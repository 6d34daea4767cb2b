"""The TCP sink against real receivers: that come late, leave early, die, read slowly or not at all."""

import itertools
import queue
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import zlib

import pytest
from tests.processes import PATIENCE
from tools.free_port import free_port

from wallaroo.connectors.base import StoppedError
from wallaroo.connectors.output_block import OutputBlock
from wallaroo.connectors.tcp.sink import TcpSink, _retries

LARGE = bytes(range(256)) * 80_000  # 20 MB: more than the buffers of a connection take.


class Sink:
    """A sink whose blocks are delivered by a thread of its own, as the engine's are."""

    def __init__(self, address):
        self.stopping = threading.Event()
        self.notices = queue.Queue()
        self.tcp = TcpSink(*address, stopping=self.stopping, notice=self.notices.put)
        self._threads = []

    def deliver(self, *bodies, number=0, note=lambda *_: None, done=(0, 0)):
        """Start to deliver a block; return the function that waits for the end and returns the error, if any."""
        outcome = queue.Queue()
        block = OutputBlock(number, bodies, note)
        block.resume(*done)

        def run():
            try:
                self.tcp.deliver(block)
            except Exception as error:  # noqa: BLE001 - handed to the test
                outcome.put(error)
            else:
                outcome.put(None)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self._threads.append(thread)
        return lambda: outcome.get(timeout=PATIENCE)

    def close(self):
        self.stopping.set()
        for thread in self._threads:
            thread.join(PATIENCE)
        self.tcp.close()


@pytest.fixture
def server():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        yield server


@pytest.fixture
def make_sink():
    made = []

    def make(address):
        made.append(Sink(address))
        return made[-1]

    yield make
    for sink in made:
        sink.close()


@pytest.fixture
def sink(make_sink, server):
    return make_sink(server.getsockname())


@pytest.fixture
def accept(server):
    accepted = []

    def accept_one():
        connection, _ = server.accept()
        connection.settimeout(PATIENCE)
        accepted.append(connection)
        return connection

    yield accept_one
    for connection in accepted:
        connection.close()


def receive(connection, size, at_once=1 << 20):
    """Return the next `size` bytes, or what came before the end of the stream."""
    data = bytearray()
    while len(data) < size and (some := connection.recv(min(at_once, size - len(data)))):
        data += some
    return bytes(data)


def free_address():
    return "127.0.0.1", free_port()


def test_blocks_arrive_whole_and_in_order_on_one_connection(sink, accept):
    blocks = [[b"block %d body %d;" % (block, body) for body in range(5)] for block in range(20)]
    connection = None
    for block in blocks:
        done = sink.deliver(*block)
        connection = connection or accept()
        assert receive(connection, len(b"".join(block))) == b"".join(block)
        assert done() is None
    sink.tcp.close()
    assert receive(connection, 1) == b""
    assert sink.notices.empty()


def test_a_large_block_arrives_whole(sink, accept):
    done = sink.deliver(b"begin", LARGE, b"", LARGE, b"end")
    expected = b"begin" + 2 * LARGE + b"end"
    assert receive(accept(), len(expected)) == expected
    assert done() is None


def test_closing_hands_over_what_was_sent(sink, accept):
    done = sink.deliver(b"x" * 50_000)
    connection = accept()
    assert done() is None
    sink.tcp.close()
    sink.tcp.close()
    assert receive(connection, 10**9) == b"x" * 50_000


def test_a_slow_reader_gets_everything(sink, accept, server):
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    data = LARGE[:300_000]
    done = sink.deliver(data)
    assert receive(accept(), len(data), at_once=1000) == data
    assert done() is None


def test_a_receiver_that_pauses_is_waited_for(sink, accept, monkeypatch):
    monkeypatch.setattr("wallaroo.connectors.tcp.sink._POLL_SECONDS", 0.05)
    done = sink.deliver(LARGE)
    connection = accept()
    # The sink checks several times while nothing moves.
    time.sleep(0.3)
    assert receive(connection, len(LARGE)) == LARGE
    assert done() is None
    assert sink.notices.empty()


def test_a_receiver_that_takes_nothing_for_long_is_reported_and_its_connection_is_kept(sink, accept, monkeypatch):
    monkeypatch.setattr("wallaroo.connectors.tcp.sink._POLL_SECONDS", 0.05)
    monkeypatch.setattr("wallaroo.connectors.tcp.sink._SILENT_SECONDS", 0.1)
    done = sink.deliver(LARGE)
    connection = accept()
    assert "has taken nothing for 0.1 seconds: it does not read, or" in sink.notices.get(timeout=PATIENCE)
    assert receive(connection, len(LARGE)) == LARGE
    assert done() is None
    assert sink.notices.get(timeout=PATIENCE).endswith(" takes outputs again.")
    assert sink.notices.empty()


def test_a_receiver_that_is_not_there_yet_is_waited_for(make_sink):
    address = free_address()
    sink = make_sink(address)
    done = sink.deliver(b"hello")
    notice = sink.notices.get(timeout=PATIENCE)
    assert notice == (
        f"Waiting for a receiver at 127.0.0.1:{address[1]} (connection refused); retrying until it is available."
    )
    with socket.create_server(address) as server:
        connection, _ = server.accept()
        with connection:
            assert receive(connection, 5) == b"hello"
            assert done() is None
    assert sink.notices.get(timeout=PATIENCE) == f"Connected to the receiver at 127.0.0.1:{address[1]}."
    assert sink.notices.empty()


@pytest.mark.parametrize("how", ["cleanly", "with data unread", "by a reset"])
@pytest.mark.parametrize("size", [1, 100_000, len(LARGE)])
def test_a_receiver_that_closes_between_blocks_gets_the_next_one_on_a_new_connection(sink, accept, how, size):
    done = sink.deliver(b"first")
    connection = accept()
    assert done() is None
    if how != "with data unread":
        assert receive(connection, 5) == b"first"
    if how == "by a reset":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    second = LARGE[:size]
    done = sink.deliver(second)
    assert receive(accept(), size) == second
    assert done() is None
    assert "Lost the receiver at 127.0.0.1:" in sink.notices.get(timeout=PATIENCE)
    assert sink.notices.get(timeout=PATIENCE).endswith(" is back; the block was sent again.")
    assert sink.notices.empty()


RECEIVER = """
import socket, sys, time
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listening", flush=True)
connection, _ = server.accept()
left = 1_000_000
while left > 0:
    left -= len(connection.recv(100_000))
print("reading", flush=True)
sys.stdin.read()
"""


def test_a_receiver_killed_while_it_reads_gets_the_whole_block_when_it_is_back(make_sink):
    address = free_address()
    sink = make_sink(address)
    command = [sys.executable, "-c", RECEIVER, str(address[1])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as receiver:
        assert receiver.stdout.readline() == "listening\n"
        done = sink.deliver(b"begin", LARGE, b"end")
        assert receiver.stdout.readline() == "reading\n"
        receiver.send_signal(signal.SIGKILL)
        assert receiver.wait(PATIENCE) == -signal.SIGKILL
    assert "the whole block is sent again when it is back" in sink.notices.get(timeout=PATIENCE)
    with socket.create_server(address) as server:
        connection, _ = server.accept()
        with connection:
            expected = b"begin" + LARGE + b"end"
            assert receive(connection, len(expected)) == expected
            assert done() is None
            done = sink.deliver(b"next")
            assert receive(connection, 4) == b"next"
            assert done() is None


def test_a_receiver_that_closed_its_sending_half_still_receives(sink, accept):
    done = sink.deliver(b"0")
    connection = accept()
    assert done() is None
    connection.shutdown(socket.SHUT_WR)
    for number in range(1, 4):
        done = sink.deliver(b"%d" % number)
        assert done() is None
    sink.tcp.close()
    assert receive(connection, 100) == b"0123"
    assert sink.notices.empty()


def test_data_from_the_receiver_is_not_read(sink, accept):
    done = sink.deliver(b"question")
    connection = accept()
    connection.sendall(b"answer")
    assert done() is None
    done = sink.deliver(b" and another")
    assert receive(connection, 20) == b"question and another"
    assert done() is None


PARTS = [bytes([65 + number]) * 1_000_000 for number in range(20)]


def border(number):
    """Return the size and the checksum of the first bodies of `PARTS`."""
    begin = b"".join(PARTS[:number])
    return len(begin), zlib.crc32(begin)


class TestHowFarABlockHasGot:
    @pytest.fixture(autouse=True)
    def _little_on_its_way(self, server):
        # Connections inherit it. By itself, the system may take in a whole block for a receiver that has read much.
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)

    def test_progress_is_recorded_at_the_borders_that_the_receivers_machine_has_acknowledged(self, sink, accept):
        notes = queue.Queue()
        done = sink.deliver(*PARTS, note=lambda *note: notes.put(note))
        connection = accept()
        begin = receive(connection, 5_000_000)
        seen = []
        while not seen or seen[-1][0] < 5_000_000:
            seen.append(notes.get(timeout=PATIENCE))
        rest = receive(connection, 15_000_000)
        assert done() is None
        assert begin + rest == b"".join(PARTS)
        while not notes.empty():
            seen.append(notes.get())
        assert seen == sorted(set(seen))
        assert set(seen) <= {border(number) for number in range(1, 20)}

    def test_the_next_run_resumes_from_there(self, sink, accept):
        done = sink.deliver(*PARTS, done=border(7))
        rest = b"".join(PARTS[7:])
        assert receive(accept(), len(rest)) == rest
        assert done() is None

    @pytest.mark.parametrize("noted", [(7_000_000, 1), (6_999_999, border(7)[1]), (10**9, 5)])
    def test_progress_that_does_not_match_is_discarded(self, sink, accept, noted):
        done = sink.deliver(*PARTS, done=noted)
        assert receive(accept(), 20_000_000) == b"".join(PARTS)
        assert done() is None

    def test_progress_is_discarded_when_the_connection_breaks(self, sink, accept):
        notes = queue.Queue()
        done = sink.deliver(*PARTS, note=lambda *note: notes.put(note), done=border(2))
        first = accept()
        assert receive(first, 5_000_000) == b"".join(PARTS[2:7])
        first.close()
        second = accept()
        while notes.get(timeout=PATIENCE) != (0, 0):
            pass
        assert receive(second, 20_000_000) == b"".join(PARTS)
        assert done() is None

    def test_progress_is_discarded_when_the_receiver_was_away(self, make_sink):
        address = free_address()
        sink = make_sink(address)
        notes = queue.Queue()
        done = sink.deliver(*PARTS, note=lambda *note: notes.put(note), done=border(2))
        sink.notices.get(timeout=PATIENCE)
        with socket.create_server(address) as server, server.accept()[0] as connection:
            assert receive(connection, 20_000_000) == b"".join(PARTS)
            assert done() is None
        assert notes.get() == (0, 0)

    def test_progress_is_discarded_when_the_receiver_had_stopped_reading(self, sink, accept, monkeypatch):
        monkeypatch.setattr("wallaroo.connectors.tcp.sink._STOPPING_TIMEOUT_SECONDS", 0.1)
        notes = []
        done = sink.deliver(*PARTS, note=lambda *note: notes.append(note), done=border(2))
        connection = accept()
        receive(connection, 3_000_000)
        sink.stopping.set()
        assert isinstance(done(), StoppedError)
        assert notes[-1] == (0, 0)


class TestTelling:
    """What is wrong is reported when it begins and when it is over, not each time that it is tried again."""

    def test_a_receiver_that_accepts_and_closes_again_and_again_is_reported_once(self, sink, accept, monkeypatch):
        monkeypatch.setattr("wallaroo.connectors.tcp.sink._LONGEST_RETRY_SECONDS", 0.01)
        done = sink.deliver(LARGE)
        for _ in range(10):
            accept().close()
        assert receive(accept(), len(LARGE)) == LARGE
        assert done() is None
        told = [sink.notices.get(timeout=PATIENCE), sink.notices.get(timeout=PATIENCE)]
        assert told[0].startswith(f"Lost the receiver at {sink.tcp.name} (")
        assert told[1] == f"The receiver at {sink.tcp.name} is back; the block was sent again."
        assert sink.notices.empty()

    def test_a_receiver_that_takes_a_block_with_each_connection_is_reported_once_in_a_while(
        self, sink, accept, monkeypatch
    ):
        def lose_one():
            done = sink.deliver(b"block")
            with accept() as connection:
                assert receive(connection, 5) == b"block"
                assert done() is None

        for _ in range(5):
            lose_one()
        told = [sink.notices.get(timeout=PATIENCE), sink.notices.get(timeout=PATIENCE)]
        assert sink.notices.empty()
        minutes = itertools.count(1)
        monkeypatch.setattr("wallaroo.notices.monotonic", lambda: time.monotonic() + 60 * next(minutes))
        lose_one()
        again = [sink.notices.get(timeout=PATIENCE), sink.notices.get(timeout=PATIENCE)]
        assert again == [f"{told[0]} (3 more times since the last report.)", told[1]]
        lose_one()
        assert [sink.notices.get(timeout=PATIENCE), sink.notices.get(timeout=PATIENCE)] == told

    def test_retries_become_rarer_and_never_stop(self):
        retries = _retries()
        pauses = [retries.next() for _ in range(50)]
        for number, pause in enumerate(pauses):
            usual = min(0.1 * 2**number, 5.0)
            assert 0.7 * usual <= pause <= 1.3 * usual
        assert len(set(pauses)) == 50


class TestStopping:
    def test_while_there_is_no_listener(self, make_sink):
        sink = make_sink(free_address())
        done = sink.deliver(b"never sent")
        sink.notices.get(timeout=PATIENCE)
        sink.stopping.set()
        assert isinstance(done(), StoppedError)

    def test_before_the_first_attempt_to_connect(self, make_sink):
        sink = make_sink(free_address())
        sink.stopping.set()
        assert isinstance(sink.deliver(b"never sent")(), StoppedError)
        assert sink.notices.empty()

    def test_while_a_receiver_takes_nothing(self, sink, accept, monkeypatch):
        monkeypatch.setattr("wallaroo.connectors.tcp.sink._STOPPING_TIMEOUT_SECONDS", 0.1)
        done = sink.deliver(LARGE)
        accept()
        sink.stopping.set()
        assert isinstance(done(), StoppedError)

    def test_a_block_that_is_being_read_is_finished(self, sink, accept, monkeypatch):
        # A reader may have to wait on a busy machine.
        monkeypatch.setattr("wallaroo.connectors.tcp.sink._STOPPING_TIMEOUT_SECONDS", PATIENCE)
        done = sink.deliver(LARGE)
        connection = accept()
        sink.stopping.set()
        assert receive(connection, len(LARGE)) == LARGE
        assert done() is None

    def test_connecting_ahead_ends_quietly(self, make_sink):
        sink = make_sink(free_address())
        thread = threading.Thread(target=sink.tcp.connect)
        thread.start()
        sink.notices.get(timeout=PATIENCE)
        sink.stopping.set()
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_connecting_ahead_makes_the_connection_that_is_used(sink, accept):
    sink.tcp.connect()
    connection = accept()
    done = sink.deliver(b"hello")
    assert receive(connection, 5) == b"hello"
    assert done() is None


def test_connecting_ahead_and_delivering_at_once_make_one_connection(sink, accept, server):
    threads = [threading.Thread(target=sink.tcp.connect) for _ in range(5)]
    for thread in threads:
        thread.start()
    done = sink.deliver(b"hello")
    assert receive(accept(), 5) == b"hello"
    assert done() is None
    for thread in threads:
        thread.join(PATIENCE)
    server.settimeout(0)
    with pytest.raises(BlockingIOError):
        server.accept()


def test_the_sink_is_known_by_its_address():
    assert TcpSink("example.org", 7002, threading.Event(), print).name == "example.org:7002"
