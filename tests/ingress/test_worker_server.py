"""What workers on other machines get from the ingress over TCP, and clients without the token do not get."""

import contextlib
import json
import os
import signal
import socket

import pytest

from wallaroo import internal_sockets
from wallaroo.ingress.block_sequence import unpack_block
from wallaroo.ingress.log import LogReader
from wallaroo.ingress.log.format import LogCorruptError
from wallaroo.ingress.sequencer import FRAME
from wallaroo.ingress.worker_client import RemoteMessages
from wallaroo.ingress.worker_server import MAX_LINE_BYTES

from .conftest import TOKEN, is_closed


@pytest.fixture
def ingress(make_ingress):
    return make_ingress(on_cluster=True)


@pytest.fixture
def address(ingress):
    return f"127.0.0.1:{ingress.process.workers_port}"


@pytest.fixture
def messages(address):
    made = RemoteMessages(address, TOKEN)
    yield made
    made.close()


@pytest.fixture
def dial(address):
    """Return a function that connects and sends a line."""
    with contextlib.ExitStack() as opened:

        def connect(line=b""):
            connection = opened.enter_context(internal_sockets.dial(address))
            connection.settimeout(30)
            connection.sendall(line)
            return connection

        yield connect


def line_of(**request):
    return json.dumps(request).encode() + b"\n"


def blocks_line(attempt="one", reader=0, readers=1, start=0, token=TOKEN):
    return line_of(op="blocks", token=token, attempt=attempt, reader=reader, readers=readers, start=start)


def next_block(connection):
    number, length, _ = FRAME.unpack(connection.recv(FRAME.size, socket.MSG_WAITALL))
    block = unpack_block(connection.recv(length, socket.MSG_WAITALL))
    assert block.number == number
    return block


def everything(pieces):
    return [payload for _, payloads in pieces for payload in payloads]


def test_a_range_comes_in_the_same_pieces_as_from_the_log(ingress, messages):
    sent = [bytes([65 + number % 26]) * (number * 7 % 5000) for number in range(2000)]
    for part in range(0, len(sent), 200):
        ingress.send(sent[part : part + 200])
        ingress.wait_for_end(part + 200)
    log = LogReader(ingress.log())
    whole = list(messages.read("numbers", 0, 2000))
    assert whole == list(log.read(0, 2000))
    assert len(whole) > 5
    assert everything(whole) == sent
    assert everything(messages.read("numbers", 400, 1000)) == sent[400:1000]
    assert everything(messages.read("numbers", 400, 400)) == []


def test_a_large_message_and_much_more_than_fits_into_the_buffers_of_a_connection(ingress, messages):
    large = os.urandom(40 << 20)
    many = [os.urandom(1 << 16) for _ in range(200)]
    ingress.send([large, *many])
    ingress.wait_for_end(201)
    assert everything(messages.read("numbers", 0, 201)) == [large, *many]


def test_a_slow_reader_does_not_hold_up_others(ingress, messages, address):
    ingress.send([os.urandom(1 << 16) for _ in range(400)])
    ingress.wait_for_end(400)
    slow = messages.read("numbers", 0, 400)
    first = next(slow)
    other = RemoteMessages(address, TOKEN)
    assert len(everything(other.read("numbers", 0, 400))) == 400
    other.close()
    # Also on the same client: a worker looks up in this way where a message came from.
    assert len(everything(messages.read("numbers", 0, 400))) == 400
    assert len(everything([first, *slow])) == 400


def test_after_a_range_that_is_read_in_part_the_next_one_is_complete(ingress, messages):
    ingress.send([os.urandom(1 << 16) for _ in range(100)])
    ingress.wait_for_end(100)
    for _ in messages.read("numbers", 0, 100):
        break
    assert len(everything(messages.read("numbers", 0, 100))) == 100


def test_a_range_continues_at_the_same_address_after_the_ingress_was_killed(ingress, messages, address):
    sent = [os.urandom(1 << 16) for _ in range(400)]
    ingress.send(sent)
    ingress.wait_for_end(400)
    reading = messages.read("numbers", 0, 400)
    received = everything([next(reading)])
    os.kill(ingress.process.pid, signal.SIGKILL)
    received += everything(reading)
    assert received == sent
    assert address == f"127.0.0.1:{ingress.process.workers_port}"
    os.kill(ingress.process.pid, signal.SIGKILL)
    assert everything(messages.read("numbers", 0, 400)) == sent


def test_missing_messages_are_reported_as_on_one_machine(ingress, messages):
    with pytest.raises(LogCorruptError, match="the log ends before message 0"):
        everything(messages.read("numbers", 0, 7))


def test_an_ingress_that_does_not_answer_is_reported():
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
    with pytest.raises(ConnectionError, match=f"does not answer at {address}"):
        everything(RemoteMessages(address, TOKEN, timeout=0.2).read("numbers", 0, 1))


def test_blocks_are_handed_out(ingress, dial):
    reader = dial(blocks_line())
    ingress.send([b"x", b"y"])
    assert sum(each.end - each.first for each in next_block(reader).ranges) > 0


@pytest.mark.parametrize(
    "line",
    [
        blocks_line(token="guessed"),
        line_of(op="messages", token="guessed", source="numbers", first=0, end=1),
        line_of(op="messages", source="numbers", first=0, end=1),
        line_of(op="messages", token=TOKEN, source="unknown", first=0, end=1),
        line_of(op="messages", token=TOKEN, source="numbers", first="no", end=1),
        b"GET / HTTP/1.1\r\n\r\n",
        b"[]\n",
        b"\xff\xfe\n",
    ],
)
def test_without_the_token_or_with_invalid_requests_the_connection_is_closed(ingress, dial, line):
    ingress.send([b"x"])
    ingress.wait_for_end(1)
    assert is_closed(dial(line))


@pytest.mark.parametrize("op", ["drain", "commit", "committed", "delivered", "end epoch", "tick", "status", "wait"])
def test_nothing_else_can_be_asked_for(ingress, dial, op):
    assert is_closed(dial(line_of(op=op, token=TOKEN, ends=[("numbers", 0, 1)], block=1, known={}, timeout=0)))
    ingress.send([b"x"])
    assert ingress.wait_for_end(1) == 1


def test_a_line_without_end_is_not_read_on(dial):
    stranger = dial()
    with contextlib.suppress(ConnectionError):
        for _ in range(100):
            stranger.sendall(b" " * MAX_LINE_BYTES)
    assert is_closed(stranger)


def test_silent_connections_do_not_keep_workers_out(ingress, messages, dial):
    ingress.send([b"x"])
    ingress.wait_for_end(1)
    silent = [dial() for _ in range(internal_sockets.MAX_UNAUTHENTICATED + 10)]
    assert is_closed(silent[0])
    assert everything(messages.read("numbers", 0, 1)) == [b"x"]


def test_an_incomplete_hello_is_not_waited_for(dial):
    assert is_closed(dial(b'{"op"'))


def test_a_lost_reader_ends_the_attempt_and_cannot_rejoin(ingress, dial):
    readers = [dial(blocks_line(reader=number, readers=2)) for number in (0, 1)]
    for payload in (b"x", b"y"):
        ingress.send([payload])
        ingress.wait_for_end(1)
    next_block(readers[0])
    readers[0].shutdown(socket.SHUT_RDWR)
    while readers[1].recv(1 << 16):
        pass
    assert is_closed(dial(blocks_line(reader=0, readers=2)))
    again = [dial(blocks_line(attempt="two", reader=number, readers=2)) for number in (0, 1)]
    assert next_block(again[0]).number == 0
