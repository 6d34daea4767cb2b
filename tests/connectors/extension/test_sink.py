"""The sink for scripts, with scripts that confirm, end, and start again."""

import contextlib
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from tools.free_port import free_port

from wallaroo.connectors.base import StoppedError
from wallaroo.connectors.extension import sink as sink_module
from wallaroo.connectors.extension.protocol import Hello, Incoming, checksum_after, hello, pack_confirm, unpack_part
from wallaroo.experimental import SinkExtension

from .blocks import APPLICATION, PATIENCE, Sending, outputs_of

ROOT = Path(__file__).parents[3]


@pytest.fixture
def script():
    """Make a script that listens, at the port of an earlier one if it is given; messages are bytes."""
    with ExitStack() as stack:

        def make(port=0, **options):
            made = stack.enter_context(contextlib.closing(SinkExtension(bytes, **options)))
            made.listen("127.0.0.1", port)
            return made

        yield make


@pytest.fixture
def sending(monkeypatch):
    made = []

    def make(address, **options):
        made.append(Sending(address, **options))
        return made[-1]

    yield make
    # What a test leaves unconfirmed is not waited for.
    monkeypatch.setattr(sink_module, "_STOPPING_TIMEOUT_SECONDS", 0.0)
    for each in made:
        each.stopping.set()
        each.sink.close()


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        yield server


def expected(numbers):
    return [output for number in numbers for output in outputs_of(number)]


def read(script, count):
    """Read so many messages."""
    return [script.read(timeout=PATIENCE) for _ in range(count)]


def reading(script, count):
    """Read so many messages in a thread, and confirm the last one; return what returns them."""
    found = []

    def run():
        found.extend(read(script, count))
        script.confirm()

    thread = threading.Thread(target=run)
    thread.start()

    def result():
        thread.join(PATIENCE)
        return found

    return result


def test_blocks_are_read_in_order_and_reported_when_they_are_confirmed(script, sending):
    some = script()
    outputs = sending(some.address)
    numbers = range(5, 40)
    result = reading(some, len(expected(numbers)))
    for number in numbers:
        outputs.deliver(number)
    assert outputs.wait_for(len(numbers)) == list(numbers)
    assert result() == expected(numbers)
    assert some.read(timeout=0) is None


def test_no_block_is_sent_before_it_is_on_the_disk(script, sending):
    some = script()
    outputs = sending(some.address)
    outputs.deliver(3, [b"x"])
    assert read(some, 1) == [b"x"]
    assert outputs.durable[0] >= 3


def test_a_message_is_confirmed_when_the_next_one_is_read(script, sending):
    some = script()
    outputs = sending(some.address)
    outputs.deliver(1, [b"a"])
    outputs.deliver(2, [b"b"])
    assert read(some, 1) == [b"a"]
    assert outputs.reports == []
    assert read(some, 1) == [b"b"]
    assert outputs.wait_for(1) == [1]
    assert some.read(timeout=0) is None
    assert outputs.wait_for(2) == [1, 2]


def test_by_hand_what_was_read_is_confirmed_and_nothing_else(script, sending):
    some = script(confirm="manual")
    outputs = sending(some.address)
    outputs.deliver(1, [b"a", b"b", b"c", b"d"])
    assert read(some, 2) == [b"a", b"b"]
    some.confirm()
    with outputs.changed:
        assert outputs.changed.wait_for(lambda: outputs.notes, PATIENCE)
    assert outputs.notes[0][0] == 2
    assert read(some, 1) == [b"c"]
    some.close()
    following = script(some_port := outputs.sink._address[1], confirm="manual")
    assert some_port == following.address[1]
    assert read(following, 2) == [b"c", b"d"]
    following.confirm()
    assert outputs.wait_for(1) == [1]


def test_the_next_script_gets_what_was_not_confirmed(script, sending):
    some = script()
    address = some.address
    outputs = sending(address)
    numbers = range(30)
    for number in numbers:
        outputs.deliver(number)
    found, total = [], len(expected(numbers))
    for part in range(5):
        count = total // 5 if part < 4 else total - len(found)
        found += read(some, count)
        # Closing confirms the last one, too.
        some.close()
        some = script(address[1])
    assert found == expected(numbers)
    assert outputs.wait_for(len(numbers)) == list(numbers)


def test_a_script_that_lives_reads_nothing_twice_when_the_connection_breaks(script, sending):
    some = script(confirm="manual")
    outputs = sending(some.address)
    numbers = range(12)
    for number in numbers:
        outputs.deliver(number)
    total = len(expected(numbers))
    found = read(some, total // 3)
    outputs.sink._bell.ring()
    for peer in list(some._peers.values()):
        peer.channel._socket.shutdown(socket.SHUT_RDWR)
    found += read(some, total // 3)
    some.confirm()
    found += read(some, total - len(found))
    some.confirm()
    assert found == expected(numbers)
    assert outputs.wait_for(len(numbers)) == list(numbers)


def test_an_application_that_is_killed_again_and_again_and_a_script_that_lives(script):
    some = script()
    total, found, delivered = len(expected(range(300))), [], 0
    while len(found) < total:
        command = [
            sys.executable,
            "-m",
            "tests.connectors.extension.blocks",
            str(some.address[1]),
            str(delivered),
            "300",
        ]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as application:
            found += read(some, min(total // 4, total - len(found)))
            if len(found) == total:
                while application.poll() is None:
                    assert some.read(0.01) is None
            application.kill()
            # What it has printed, it has recorded as delivered.
            reports = application.stdout.read().splitlines(keepends=True)
            delivered = max([delivered, *(int(line) + 1 for line in reports if line.endswith("\n"))])
    assert found == expected(range(300))


def test_the_next_run_sends_what_the_last_one_has_not_noted_as_confirmed(script, sending, monkeypatch):
    monkeypatch.setattr(sink_module, "_STOPPING_TIMEOUT_SECONDS", 0.0)
    some = script(confirm="manual")
    outputs = sending(some.address)
    messages = [b"a", b"bb", b"ccc", b"dddd"]
    outputs.deliver(7, messages)
    read(some, 3)
    some.confirm()
    with outputs.changed:
        assert outputs.changed.wait_for(lambda: outputs.notes, PATIENCE)
    some.close()
    outputs.stopping.set()
    outputs.sink.close()
    following = script()
    again = sending(following.address)
    again.deliver(7, messages, resumed=outputs.notes[-1])
    # Progress is noted at the borders of bodies.
    assert read(following, 2) == [b"ccc", b"dddd"]


def test_applications_take_turns_and_have_their_own_blocks(script, sending):
    some = script()
    outputs = [sending(some.address, application=f"{number}f1c3f0d8a3b4b0f9d0a6a1f2f3e4d5c") for number in range(3)]
    for number in range(3):
        outputs[number].deliver(1, [b"%d:%d" % (number, index) for index in range(5)])
    found = read(some, 15)
    some.confirm()
    for number in range(3):
        assert [each for each in found if each.startswith(b"%d:" % number)] == [
            b"%d:%d" % (number, index) for index in range(5)
        ]
        assert outputs[number].wait_for(1) == [1]


def test_a_large_message_and_many_small_ones(script, sending):
    some = script()
    outputs = sending(some.address)
    messages = [bytes(5 << 20), *[b""] * 50_000, b"last"]
    outputs.deliver(1, messages)
    found = read(some, len(messages))
    some.confirm()
    assert found == messages
    assert outputs.wait_for(1) == [1]


def test_a_script_that_is_not_there_yet_is_waited_for(script, sending, listener):
    address = listener.getsockname()
    listener.close()
    outputs = sending(address)
    outputs.deliver(1, [b"x"])
    while not outputs.notices:
        time.sleep(0.001)
    assert f"Waiting for the script at 127.0.0.1:{address[1]} (connection refused)" in outputs.notices[0]
    some = script(address[1])
    assert read(some, 1) == [b"x"]
    some.confirm()
    assert outputs.wait_for(1) == [1]
    assert outputs.notices[1:] == [f"Connected to the script at 127.0.0.1:{address[1]}."]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "it sent b'HTTP/1.1 400 Bad', which is not how an extension"),
        (Hello(7, {"role": "sink"}).pack(), "speaks version 7 of the protocol of extensions, and this side speaks"),
        (hello("application"), "its hello is that of something else"),
        (hello("sink", confirmed=[True, 0, 0]), "its hello is that of something else"),
        (hello("sink", confirmed=[1, -1, 0]), "its hello is that of something else"),
        (
            hello("sink", confirmed=[-1, 0, 0]) + pack_confirm(10**6, 1),
            "it confirmed 1 message of block 1000000, which it was not sent",
        ),
        (hello("sink", confirmed=[-1, 0, 0]) + b"\xff\xff\xff\xff\x01", "it announced a frame of 4,294,967,295 bytes"),
    ],
)
def test_what_is_no_script_is_told_in_one_line(sending, listener, answer, words):
    outputs = sending(listener.getsockname())
    outputs.deliver(1, [b"x"])
    for _ in range(2):
        connection, _ = listener.accept()
        with connection:
            assert connection.recv(1 << 16)
            connection.sendall(answer)
            with contextlib.suppress(ConnectionError):
                while connection.recv(1 << 16):
                    pass
    [notice] = outputs.notices
    assert words in notice
    assert "\n" not in notice


def test_who_says_nothing_is_asked_about(sending, listener, monkeypatch):
    monkeypatch.setattr(sink_module, "_SILENT_SECONDS", 0.0)
    monkeypatch.setattr(sink_module, "_POLL_SECONDS", 0.01)
    outputs = sending(listener.getsockname())
    outputs.deliver(1, [b"x"])
    connection, _ = listener.accept()
    with connection:
        while not outputs.notices:
            time.sleep(0.001)
        assert outputs.notices[0].endswith("said nothing: is it a SinkExtension that is being read?")


def test_stopping_leaves_what_a_script_does_not_confirm_to_the_next_run(script, sending, monkeypatch):
    monkeypatch.setattr(sink_module, "_STOPPING_TIMEOUT_SECONDS", 0.0)
    some = script(confirm="manual")
    outputs = sending(some.address)
    outputs.deliver(1, [b"x"])
    read(some, 1)
    outputs.stopping.set()
    [error] = outputs.wait_for(1)
    assert isinstance(error, StoppedError)


def test_closing_waits_for_a_script_that_goes_on(script, sending):
    some = script()
    outputs = sending(some.address)
    outputs.deliver(1, [b"%d" % number for number in range(1000)])
    result = reading(some, 1000)
    outputs.sink.close()
    assert outputs.reports == [1]
    assert len(result()) == 1000


def test_what_a_script_has_confirmed_to_an_earlier_run_is_not_sent(sending, listener):
    outputs = sending(listener.getsockname())
    outputs.sink.connect()
    connection, _ = listener.accept()
    incoming, came = Incoming(1 << 20), []
    with connection:
        connection.sendall(hello("sink", confirmed=[4, 1, checksum_after(0, [1], [b"x"])]))
        for number in (1, 2, 4, 5):
            outputs.deliver(number, [b"x", b"y"])
        while len(came) < 3:
            came += incoming.feed(connection.recv(1 << 16))
        assert [unpack_part(part.body)[:3] for part in came[1:]] == [(4, 2, 1), (5, 2, 0)]
        assert outputs.wait_for(2) == [1, 2]


def test_a_block_in_another_order_than_the_script_has_confirmed_is_sent_again_as_a_whole(sending, listener):
    outputs = sending(listener.getsockname())
    outputs.sink.connect()
    connection, _ = listener.accept()
    incoming, came = Incoming(1 << 20), []
    with connection:
        connection.sendall(hello("sink", confirmed=[4, 1, checksum_after(0, [1], [b"y"])]))
        for number in (2, 4):
            outputs.deliver(number, [b"x", b"y"])
        while len(came) < 2:
            came += incoming.feed(connection.recv(1 << 16))
        assert unpack_part(came[1].body) == (4, 2, 0, 0, [b"x", b"y"])
        connection.sendall(pack_confirm(4, 2))
        assert outputs.wait_for(2) == [2, 4]
    assert outputs.notices[0].startswith("Block 4 was computed again, and its outputs come in another order")


def test_an_application_that_computes_in_another_order_loses_nothing(script, sending, monkeypatch):
    some = script()
    outputs, messages = sending(some.address), [b"%01000d" % number for number in range(2000)]
    outputs.deliver(1, messages)
    read(some, 1000)
    monkeypatch.setattr(sink_module, "_STOPPING_TIMEOUT_SECONDS", 0.0)
    outputs.stopping.set()
    outputs.sink.close()
    again = sending(some.address)
    again.deliver(1, messages[::-1])
    found = []
    # At first what has come before is read.
    while found[-2000:] != messages[::-1]:
        found += read(some, 1)
    assert some.read(0) is None
    assert again.wait_for(1) == [1]


def test_a_script_may_confirm_all_that_it_was_sent_at_once(sending, listener):
    outputs = sending(listener.getsockname())
    for number in (1, 2, 4):
        outputs.deliver(number, [b"x", b"y"])
    connection, _ = listener.accept()
    incoming, came = Incoming(1 << 20), []
    with connection:
        connection.sendall(hello("sink", confirmed=[1, 2, 0]))
        while len(came) < 3:
            came += incoming.feed(connection.recv(1 << 16))
        said, *parts = came
        assert said.says["role"] == "application"
        assert [unpack_part(part.body)[:3] for part in parts] == [(2, 2, 0), (4, 2, 0)]
        connection.sendall(pack_confirm(4, 2))
        assert outputs.wait_for(3) == [1, 2, 4]


def test_its_stream_is_that_of_its_state(sending):
    address = ("127.0.0.1", free_port())
    streams = {
        sending(address, application=each).sink._stream for each in (APPLICATION, APPLICATION[::-1], APPLICATION)
    }
    assert len(streams) == 2
