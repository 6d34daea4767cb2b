"""The TCP sink that has its blocks confirmed, against receivers that do so, or fail to."""

import queue
import socket
import struct
import threading
import uuid
from contextlib import ExitStack

import pytest
from tests.processes import PATIENCE

from wallaroo.connectors.base import SinkContext, StoppedError
from wallaroo.connectors.output_block import OutputBlock
from wallaroo.connectors.tcp.confirmed_sink import ConfirmedTcpSink

APPLICATION = "6f1c3f0d8a3b4b0f9d0a6a1f2f3e4d5c"
LARGE = bytes(range(256)) * 80_000


class Running:
    """A sink whose blocks are delivered by a thread of its own, and its receiver's ends of the connections."""

    def __init__(self, stack):
        self._stack = stack
        self.server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.server.settimeout(PATIENCE)
        self.stopping = threading.Event()
        self.notices = queue.Queue()
        address = self.server.getsockname()
        self.durable = []
        context = SinkContext(self.stopping, self.notices.put, APPLICATION, self.durable.append)
        self.tcp = ConfirmedTcpSink(*address, context)
        stack.callback(self.tcp.close)

    def deliver(self, number, *bodies):
        outcome = queue.Queue()

        def run():
            try:
                self.tcp.deliver(OutputBlock(number, bodies))
            except Exception as error:  # noqa: BLE001 - handed to the test
                outcome.put(error)
            else:
                outcome.put(None)

        thread = threading.Thread(target=run)
        thread.start()
        self._stack.callback(thread.join, PATIENCE)
        self._stack.callback(self.stopping.set)
        return lambda: outcome.get(timeout=PATIENCE)

    def accept(self):
        connection, _ = self.server.accept()
        connection.settimeout(PATIENCE)
        return self._stack.enter_context(connection)


@pytest.fixture
def sink():
    with ExitStack() as stack:
        yield Running(stack)


def receive(connection, size):
    data = bytearray()
    while len(data) < size and (some := connection.recv(min(1 << 20, size - len(data)))):
        data += some
    return bytes(data)


def frame(sink, number, body):
    """Return a framed block as docs/reference/wire-formats.md describes it."""
    stream = uuid.uuid5(uuid.UUID(APPLICATION), sink.tcp.name).bytes
    return b"WAL1" + stream + struct.pack(">QQ", number, len(body)) + body


def test_a_block_is_framed_and_delivered_when_it_is_confirmed(sink):
    done = sink.deliver(258, b"begin", b"", LARGE, b"end")
    expected = frame(sink, 258, b"begin" + LARGE + b"end")
    connection = sink.accept()
    assert receive(connection, len(expected)) == expected
    for byte in (258).to_bytes(8, "big"):
        connection.sendall(bytes([byte]))
    assert done() is None
    done = sink.deliver(300, b"")
    assert receive(connection, 36) == frame(sink, 300, b"")
    connection.sendall((300).to_bytes(8, "big"))
    assert done() is None
    assert sink.notices.empty()
    assert sink.durable == [258, 300]


@pytest.mark.parametrize("answer", [b"", b"\0\0\0", (6).to_bytes(8, "big"), b"thank you"])
def test_a_block_that_is_not_confirmed_is_sent_again(sink, answer):
    done = sink.deliver(7, b"hello")
    expected = frame(sink, 7, b"hello")
    with sink.accept() as connection:
        assert receive(connection, len(expected)) == expected
        connection.sendall(answer)
    connection = sink.accept()
    assert receive(connection, len(expected)) == expected
    connection.sendall((7).to_bytes(8, "big"))
    assert done() is None
    assert sink.notices.get(timeout=PATIENCE).startswith(f"Lost the receiver at {sink.tcp.name} (it c")
    assert sink.notices.get(timeout=PATIENCE) == f"The receiver at {sink.tcp.name} is back; the block was sent again."


def test_what_was_read_of_a_block_is_sent_again_too(sink):
    done = sink.deliver(7, LARGE)
    expected = frame(sink, 7, LARGE)
    with sink.accept() as connection:
        assert receive(connection, 5_000_000) == expected[:5_000_000]
    connection = sink.accept()
    assert receive(connection, len(expected)) == expected
    connection.sendall((7).to_bytes(8, "big"))
    assert done() is None


def test_a_receiver_that_ends_its_side_and_stops_reading_is_not_waited_for(sink):
    done = sink.deliver(7, LARGE)
    expected = frame(sink, 7, LARGE)
    first = sink.accept()
    assert receive(first, 1_000_000) == expected[:1_000_000]
    first.shutdown(socket.SHUT_WR)
    connection = sink.accept()
    assert receive(connection, len(expected)) == expected
    connection.sendall((7).to_bytes(8, "big"))
    assert done() is None


def test_a_receiver_that_never_confirms_is_reported_once(sink, monkeypatch):
    monkeypatch.setattr("wallaroo.connectors.tcp.confirmed_sink._TIMEOUT_SECONDS", 0.01)
    monkeypatch.setattr("wallaroo.connectors.tcp.sink._POLL_SECONDS", 0.01)
    done = sink.deliver(7, b"hello")
    connection = sink.accept()
    assert "has not confirmed it. Is it one for --effectively-once?" in sink.notices.get(timeout=PATIENCE)
    receive(connection, len(frame(sink, 7, b"hello")))
    connection.sendall((7).to_bytes(8, "big"))
    assert done() is None
    assert sink.notices.get(timeout=PATIENCE) == f"The receiver at {sink.tcp.name} has confirmed the block."
    assert sink.notices.empty()


def test_stopping_while_a_block_is_not_confirmed(sink, monkeypatch):
    monkeypatch.setattr("wallaroo.connectors.tcp.sink._STOPPING_TIMEOUT_SECONDS", 0.1)
    monkeypatch.setattr("wallaroo.connectors.tcp.sink._POLL_SECONDS", 0.01)
    done = sink.deliver(7, b"hello")
    sink.accept()
    sink.stopping.set()
    assert isinstance(done(), StoppedError)
