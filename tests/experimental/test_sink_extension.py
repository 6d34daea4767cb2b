"""The script's half of a sink, with applications that say what a test wants."""

import contextlib
import resource
import socket

import pytest
from tools.free_port import free_port

from wallaroo import WallarooError
from wallaroo.connectors.extension.protocol import (
    Hello,
    Incoming,
    checksum_after,
    hello,
    pack_part,
    unpack_confirm,
)
from wallaroo.experimental import SinkExtension, StreamDecoderError, streaming_message_decoder
from wallaroo.experimental import sink_extension as module

PATIENCE = 60


@pytest.fixture
def extension():
    with contextlib.closing(SinkExtension(bytes)) as made:
        made.listen("127.0.0.1", 0)
        yield made


class Application:
    """An application that is connected to a script."""

    def __init__(self, extension, said=None):
        self.socket = socket.create_connection(extension.address, timeout=PATIENCE)
        self.socket.sendall(said or hello("application", stream="a stream"))
        self.incoming, self.came = Incoming(1 << 20), []

    def send(self, block, *payloads, first=0, end=None):
        """Send the messages of a block, or some of them."""
        some, before = payloads[first:end], payloads[:first]
        checksum = checksum_after(0, list(map(len, before)), before)
        self.socket.sendall(pack_part(block, len(payloads), first, checksum, list(map(len, some)), some))

    def next(self):
        while not self.came:
            data = self.socket.recv(1 << 16)
            assert data, "the script has closed the connection"
            self.came += self.incoming.feed(data)
        return self.came.pop(0)

    def next_while_reading(self, extension, found):
        """Return what comes next; messages that are read meanwhile are added to `found`."""
        self.socket.settimeout(0.01)
        while not self.came:
            if (message := extension.read(0.01)) is not None:
                found.append(message)
            with contextlib.suppress(TimeoutError):
                self.came += self.incoming.feed(self.socket.recv(1 << 16))
        self.socket.settimeout(PATIENCE)
        return self.came.pop(0)


@pytest.fixture
def connected(extension):
    with contextlib.ExitStack() as stack:

        def connect(said=None):
            made = Application(extension, said)
            stack.callback(made.socket.close)
            return made

        yield connect


def test_a_decoder_that_fails_is_an_error_and_the_next_message_follows(connected):
    @streaming_message_decoder
    def decode(message):
        return int(message)

    with SinkExtension(decode) as numbers:
        numbers.listen("127.0.0.1", "0")
        application = Application(numbers)
        with application.socket:
            application.send(1, b"1", b"two", b"3")
            assert numbers.read(PATIENCE) == 1
            with pytest.raises(StreamDecoderError, match="failed for a message of 3 bytes with ValueError") as failed:
                numbers.read(PATIENCE)
            assert isinstance(failed.value.__cause__, ValueError)
            assert numbers.read(PATIENCE) == 3


def test_a_message_that_comes_again_is_not_read_again(extension, connected):
    application = connected()
    application.send(1, b"a", b"b", b"c")
    assert [extension.read(PATIENCE) for _ in range(2)] == [b"a", b"b"]
    application.socket.close()
    again = connected()
    again.send(1, b"a", b"b", b"c")
    again.send(2, b"d")
    assert [extension.read(PATIENCE) for _ in range(2)] == [b"c", b"d"]
    # What was read before is confirmed; the hello says so.
    assert again.next().says["confirmed"][:2] in ([1, 2], [1, 3])


@pytest.mark.parametrize(
    ("count", "again", "is_other"),
    [
        (2, [b"4", b"3", b"2", b"1", b"0"], True),
        (3, [b"0", b"1", b"34", b"2"], True),
        (2, [b"0"], True),
        (2, [b"01", b"", b"2"], True),
        (3, [b"0", b"1", b"2", b"34"], False),
    ],
)
def test_a_block_that_comes_again_in_another_order_is_read_again(extension, connected, caplog, count, again, is_other):
    application = connected()
    application.send(2, b"0", b"1", b"2", b"3", b"4", end=count)
    assert [extension.read(PATIENCE) for _ in range(count)] == [b"%d" % number for number in range(count)]
    application.socket.close()
    connected().send(2, *again)
    if is_other:
        while not caplog.messages:
            assert extension.read(0.01) is None
        connected().send(2, *again)
    expected = again[0 if is_other else count :]
    assert [extension.read(PATIENCE) for _ in expected] == expected
    assert ("it has computed block 2 again, in another order" in caplog.text) == is_other


def test_a_block_that_was_read_as_a_whole_is_not_read_again_in_another_order(extension, connected):
    application = connected()
    application.send(2, b"0", b"1")
    assert [extension.read(PATIENCE) for _ in range(2)] == [b"0", b"1"]
    application.socket.close()
    application = connected()
    application.send(2, b"1", b"0")
    application.send(3, b"2")
    assert extension.read(PATIENCE) == b"2"


def test_what_is_confirmed_before_it_comes_again_is_told_when_it_has(connected):
    with SinkExtension(bytes, confirm="manual") as extension:
        extension.listen("127.0.0.1", 0)
        first = Application(extension)
        first.send(1, b"a", b"b")
        first.send(2, b"a", b"b", end=1)
        assert [extension.read(PATIENCE) for _ in range(3)] == [b"a", b"b", b"a"]
        first.socket.close()
        again = Application(extension)
        with again.socket:
            again.next_while_reading(extension, [])
            extension.confirm()
            again.send(1, b"a", b"b")
            again.send(2, b"a", b"b")
            assert extension.read(PATIENCE) == b"b"
            assert [unpack_confirm(again.next().body) for _ in range(2)] == [(1, 2), (2, 1)]


def test_what_is_confirmed_while_nobody_is_connected_is_told_later():
    with SinkExtension(bytes, confirm="manual") as extension:
        extension.listen("127.0.0.1", 0)
        application = Application(extension)
        application.send(1, b"a", b"b")
        assert extension.read(PATIENCE) == b"a"
        application.socket.close()
        assert extension.read(PATIENCE) == b"b"
        assert extension.read(0.01) is None
        extension.confirm()
        again = Application(extension)
        with again.socket:
            again.socket.settimeout(0.01)
            while not again.came:
                assert extension.read(0.01) is None
                with contextlib.suppress(TimeoutError):
                    again.came += again.incoming.feed(again.socket.recv(1 << 16))
            assert again.next().says["confirmed"] == [1, 2, checksum_after(0, [1, 1], [b"ab"])]


def test_parts_of_a_block_and_many_blocks_at_once(extension, connected):
    application = connected()
    for first in range(0, 100, 10):
        application.send(5, *(b"%d" % number for number in range(100)), first=first, end=first + 10)
    for block in range(6, 500):
        application.send(block, b"%d" % block)
    found = [extension.read(PATIENCE) for _ in range(100 + 494)]
    assert found == [b"%d" % number for number in [*range(100), *range(6, 500)]]
    assert extension.read(0) is None
    assert application.next().says == {"role": "sink", "confirmed": [-1, 0, 0]}
    while unpack_confirm(application.next().body) != (499, 1):
        pass


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b"GET / HTTP/1.1\r\n", "it sent b'GET / HTTP/1.1"),
        (Hello(7, {"role": "application"}).pack(), "the application speaks version 7"),
        (hello("source", script="x"), "its hello is not that of an application"),
        (
            hello("application", stream="x") + pack_part(1, 1, 5, 0, [1], [b"x"]),
            "messages that its block does not have",
        ),
        (hello("application", stream="x") + b"\x00\x00\x00\x01\x63", "it sent what only a script sends"),
    ],
)
def test_who_sends_nonsense_is_named_in_a_line_and_harms_nobody(extension, connected, caplog, said, words):
    application = connected()
    application.send(1, b"before")
    assert extension.read(PATIENCE) == b"before"
    other = connected(said)
    while not caplog.messages:
        assert extension.read(0.01) is None
    application.send(2, b"after")
    assert extension.read(PATIENCE) == b"after"
    [line] = caplog.messages
    assert words in line
    assert "{}:{}".format(*other.socket.getsockname()) in line


def test_another_version_is_answered_with_ours(extension, connected):
    other = connected(Hello(7, {"role": "application", "stream": "x"}).pack())
    while not other.came:
        assert extension.read(0.01) is None
        other.socket.settimeout(0.01)
        with contextlib.suppress(TimeoutError):
            other.came += other.incoming.feed(other.socket.recv(1 << 16))
    assert other.next() == Hello(1, {"role": "sink"})


def test_connections_that_say_nothing_do_not_pile_up(extension, connected):
    silent = []
    for _ in range(200):
        silent.append(socket.create_connection(extension.address, timeout=PATIENCE))
        assert extension.read(0) is None
    with contextlib.ExitStack() as stack:
        for each in silent:
            stack.callback(each.close)
        application = connected()
        application.send(1, b"x")
        assert extension.read(PATIENCE) == b"x"
        assert silent[0].recv(1) == b""


def test_of_many_streams_those_that_are_connected_are_kept(extension, connected, monkeypatch):
    monkeypatch.setattr(module, "_MOST_STREAMS", 2)
    kept = connected()
    kept.send(1, b"0", b"1", end=1)
    assert extension.read(PATIENCE) == b"0"
    for number in range(4):
        other = connected(hello("application", stream=str(number)))
        other.next_while_reading(extension, [])
        other.socket.close()
    assert list(extension._streams) == ["a stream", "3"]


def test_without_descriptors_connections_are_accepted_later(extension, connected, caplog):
    application = connected()
    application.send(1, b"x")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (application.socket.fileno() + 1, before[1]))
    try:
        while not caplog.messages:
            assert extension.read(0.01) is None
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert "cannot accept a connection: Too many open files" in caplog.messages[0]
    assert extension.read(PATIENCE) == b"x"


def test_read_without_listen_and_listening_twice_are_refused(extension):
    with pytest.raises(WallarooError, match="listens already"):
        extension.listen("127.0.0.1", 0)
    with pytest.raises(WallarooError, match=r"call listen\(host, port\) first"):
        SinkExtension(bytes).read()


def test_an_address_in_use_is_a_sentence(extension):
    with pytest.raises(WallarooError, match=r"cannot listen on 127.0.0.1:\d+: .* Is it running already\?"):
        SinkExtension(bytes).listen(*extension.address)


def test_the_way_to_confirm_is_one_of_two():
    with pytest.raises(WallarooError, match='confirm is "automatic" or "manual"; got'):
        SinkExtension(bytes, confirm="now")


def test_in_a_with_block_that_fails_the_last_message_is_not_confirmed(connected):
    port = free_port()
    with contextlib.suppress(ZeroDivisionError), SinkExtension(bytes) as failing:
        failing.listen("127.0.0.1", port)
        application = Application(failing)
        application.send(1, b"a", b"b")
        assert [failing.read(PATIENCE) for _ in range(2)] == [b"a", b"b"]
        raise ZeroDivisionError
    with application.socket:
        application.next()
        with contextlib.suppress(ConnectionError, AssertionError):
            while True:
                assert unpack_confirm(application.next().body) == (1, 1)
