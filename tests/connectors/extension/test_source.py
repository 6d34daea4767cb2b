"""The source for scripts, in a real ingress process."""

import os
import signal
import socket
import struct
import time
from contextlib import ExitStack

import pytest
from tools.free_port import free_port

import wallaroo.experimental
from wallaroo.connectors.extension.protocol import (
    BYE,
    REFUSED,
    Hello,
    Incoming,
    Messages,
    frame,
    hello,
    pack_ask,
    pack_messages,
    unpack_durable,
    unpack_stands,
)
from wallaroo.ingress.lanes import note_committed
from wallaroo.ingress.log.format import note_lost

from ...ingress.conftest import is_closed  # noqa: TID252 - tests are not installed.
from .ingress_of_extensions import connected, messages, source

PATIENCE = 60


class Raw:
    """A script that says what a test wants, byte by byte."""

    def __init__(self, address):
        self.socket = socket.create_connection(address, timeout=PATIENCE)
        self._incoming = Incoming(1 << 20)
        self._came = []

    def send(self, data, *, at_once=None):
        for begin in range(0, len(data), at_once or len(data)):
            self.socket.sendall(data[begin : begin + (at_once or len(data))])

    def next(self):
        while not self._came:
            data = self.socket.recv(1 << 16)
            assert data, "the connection was closed"
            self._came += self._incoming.feed(data)
        return self._came.pop(0)

    def greet(self, script="a script"):
        self.send(hello("source", script=script))
        return self.next().says["accepted"]

    def write(self, first, *payloads):
        self.send(pack_messages(Messages(first, list(payloads), [], (), ())))


@pytest.fixture
def raw():
    with ExitStack() as stack:

        def connect(address):
            made = Raw(address)
            stack.callback(made.socket.close)
            return made

        yield connect


def kill(ingress):
    """Kill the process, and wait until it has been started again, which happens by itself."""
    killed = ingress.process.pid
    os.kill(killed, signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE
    while ingress.process.pid in {killed, None}:
        assert time.monotonic() < deadline, "it was not started again"
        time.sleep(0.01)


def numbered(first, end):
    return [b"%d" % number for number in range(first, end)]


def test_messages_are_in_the_log_in_order_and_acknowledged(make_ingress):
    ingress = make_ingress(source=source())
    with connected(ingress) as extension:
        assert [extension.write(each) for each in numbered(0, 5)] == [1, 2, 3, 4, 5]
        assert extension.wait_acknowledged(timeout=PATIENCE)
        assert extension.acknowledged == 5
    assert messages(ingress) == numbered(0, 5)
    assert ingress.client.status()["numbers"]["total_messages"] == 5


def test_frames_cut_at_every_byte(make_ingress, raw):
    ingress = make_ingress(source=source())
    script = raw(ingress.addresses["numbers"])
    both = Messages(3, [b"c", b"", b"e"], ["a", "b"], [1, 0, 1], [5, 6, 7])
    data = hello("source", script="cut") + pack_messages(Messages(1, [b"a", b"b"], [], (), ())) + pack_messages(both)
    for begin in range(len(data)):
        script.send(data[begin : begin + 1])
    assert script.next() == Hello(1, {"role": "application", "accepted": 0, "largest": 64 << 20})
    while unpack_durable(script.next().body) < 5:
        pass
    assert messages(ingress) == [b"a", b"b", b"c", b"", b"e"]


def test_what_was_had_of_a_script_is_not_taken_again(make_ingress, raw):
    ingress = make_ingress(source=source())
    script = raw(ingress.addresses["numbers"])
    assert script.greet() == 0
    script.write(1, b"1", b"2", b"3")
    assert unpack_durable(script.next().body) == 3
    again = raw(ingress.addresses["numbers"])
    assert again.greet() == 3
    assert unpack_durable(again.next().body) == 3
    again.write(2, b"2", b"3", b"4")
    assert unpack_durable(again.next().body) == 4
    again.write(1, b"1", b"2")
    other = raw(ingress.addresses["numbers"])
    assert other.greet("another script") == 0
    other.write(1, b"1")
    assert unpack_durable(other.next().body) == 1
    assert messages(ingress) == [b"1", b"2", b"3", b"4", b"1"]


def test_a_script_that_connects_again_loses_its_older_connection(make_ingress, raw):
    ingress = make_ingress(source=source())
    older, newer, other = (raw(ingress.addresses["numbers"]) for _ in range(3))
    older.greet()
    other.greet("another script")
    assert newer.greet() == 0
    assert is_closed(older.socket)
    for script in (newer, other):
        script.write(1, b"1")
        assert unpack_durable(script.next().body) == 1
    assert messages(ingress) == [b"1", b"1"]


def test_what_was_had_of_a_partition_is_not_taken_again_whoever_sends_it(make_ingress):
    ingress = make_ingress(source=source())
    with connected(ingress) as extension:
        assert extension.resume_from("a") is None
        for number in range(100):
            extension.write(b"a%d" % number, "a", number)
            extension.write(b"b%d" % number, "b", 2 * number)
        extension.write(b"again", "a", 99)
        assert extension.write(b"always") == 202
    with connected(ingress) as extension:
        assert [extension.resume_from(each) for each in ("a", "b", "c")] == [99, 198, None]
        for number in range(90, 110):
            extension.write(b"a%d" % number, "a", number)
        extension.write(b"always")
    got = messages(ingress)
    assert [each for each in got if each[:1] == b"a" and each != b"always"] == [b"a%d" % each for each in range(110)]
    assert [each for each in got if each[:1] == b"b"] == [b"b%d" % each for each in range(100)]
    assert got.count(b"always") == 2


def test_any_object_is_a_partition_and_any_whole_number_a_sequence(make_ingress):
    ingress = make_ingress(source=source())
    most = (1 << 63) - 1
    with connected(ingress) as extension:
        for partition, sequence in ((("a", 1), -most - 1), (None, 0), (7, most), ("7", most), ("\ud800é", 1)):
            extension.write(b"x", partition, sequence)
        extension.wait_acknowledged(timeout=PATIENCE)
        assert extension.resume_from(("a", 1)) == -most - 1
        assert extension.resume_from("7") == most
        assert [extension.resume_from(each) for each in (None, "\ud800é")] == [0, 1]
        with pytest.raises(wallaroo.WallarooError, match="at most 1000 bytes"):
            extension.write(b"x", "a" * 1001, 1)
        with pytest.raises(wallaroo.WallarooError, match="A sequence is a whole number"):
            extension.write(b"x", "a", 1.5)
    assert messages(ingress) == [b"x"] * 4


def test_a_thousand_partitions_and_a_kill_of_the_ingress(make_ingress):
    # On a port of its own, which it has again when it is started again.
    ingress = make_ingress(source=source(free_port()), segment_bytes=1 << 16)
    names = [f"partition {number}" for number in range(1000)]
    with connected(ingress) as extension:
        for sequence in range(20):
            for name in names:
                extension.write(f"{name} {sequence}".encode(), name, sequence)
            if sequence in {7, 13}:
                kill(ingress)
    with connected(ingress) as extension:
        assert {extension.resume_from(name) for name in names} == {19}
        for sequence in range(15, 22):
            for name in names:
                extension.write(f"{name} {sequence}".encode(), name, sequence)
    expected = [f"{name} {sequence}".encode() for sequence in range(22) for name in names]
    assert messages(ingress) == expected


def test_what_is_known_of_partitions_outlives_the_messages(make_ingress):
    # On a port of its own, which it has again when it is started again.
    ingress = make_ingress(source=source(free_port()), segment_bytes=1 << 16)
    with connected(ingress) as extension:
        extension.write(b"first", "quiet", 5)
        for number in range(2000):
            extension.write(b"%0200d" % number, "busy", number)
    end = ingress.client.status()["numbers"]["end"]
    ingress.commit(end)
    assert ingress.client.status()["numbers"]["start"] > 0
    assert b"first" not in messages(ingress)
    kill(ingress)
    with connected(ingress) as extension:
        assert (extension.resume_from("quiet"), extension.resume_from("busy")) == (5, 1999)
        extension.write(b"again", "quiet", 5)
        extension.write(b"new", "quiet", 6)
    assert messages(ingress)[-1] == b"new"
    assert ingress.client.status()["numbers"]["end"] == end + 1


def test_what_is_known_outlives_a_kill_while_messages_are_recorded_as_lost(make_ingress):
    ingress = make_ingress(source=source(free_port()))
    with connected(ingress) as extension:
        extension.write(b"first", "quiet", 5)
    # As when the log ended before what was processed, and the process was killed before it has started a segment.
    note_committed(ingress.log(), {0: 1})
    note_lost(ingress.log(), 1, 10)
    for _ in range(2):
        kill(ingress)
        with connected(ingress) as extension:
            assert extension.resume_from("quiet") == 5
    assert ingress.client.status()["numbers"]["end"] == 10


def test_a_foreign_client_is_refused_in_one_line_and_harms_nobody(make_ingress, raw):
    ingress = make_ingress(source=source())
    with connected(ingress) as extension:
        extension.write(b"before")
        foreign = raw(ingress.addresses["numbers"])
        foreign.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert is_closed(foreign.socket)
        extension.write(b"after")
    notice = ingress.notice("was closed")
    assert "to 'numbers' was closed: it sent b'GET / HTTP/1.1" in notice
    assert "which is not how an extension of Wallaroo begins" in notice
    assert "\n" not in notice
    assert messages(ingress) == [b"before", b"after"]


def test_a_script_of_another_version_is_told_which_versions_met(make_ingress, raw):
    ingress = make_ingress(source=source())
    other = raw(ingress.addresses["numbers"])
    other.send(Hello(7, {"role": "source", "script": "of the future"}).pack())
    assert other.next() == Hello(1, {"role": "application"})
    assert is_closed(other.socket)
    assert "the script speaks version 7 of the protocol of extensions, and this side speaks version 1" in (
        ingress.notice("was closed")
    )


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (Hello(1, {"role": "sink"}).pack(), "its hello is not that of a SourceExtension"),
        (Hello(1, {"role": "source", "script": 5}).pack(), "its hello is not that of a SourceExtension"),
        (struct.pack(">4sHI", b"WALX", 1, 3) + b"[5]", "its hello is not an object in JSON"),
        (struct.pack(">4sHI", b"WALX", 1, 1 << 30), "a hello of 1,073,741,824 bytes"),
        (hello("source", script="s") + b"\xff\xff\xff\xff\x01", "a frame of 4,294,967,295 bytes"),
        (hello("source", script="s") + frame(99), "a frame of a kind that scripts do not send"),
        (
            hello("source", script="s") + pack_messages(Messages((1 << 64) - 1, [b"", b""], [], (), ())),
            "numbers them as no script does",
        ),
        (hello("source", script="s") + frame(1, b"short"), "a frame of messages is not as long as it says"),
        (
            hello("source", script="s") + pack_messages(Messages(1, [b""], ["a"], [1], [0])),
            "names a partition that its frame does not have",
        ),
    ],
)
def test_nonsense_closes_the_connection_with_a_line(make_ingress, raw, sent, words):
    ingress = make_ingress(source=source())
    script = raw(ingress.addresses["numbers"])
    script.send(sent)
    with script.socket:
        assert words in ingress.notice("was closed")
    assert ingress.client.status()["numbers"]["end"] == 0


def test_a_script_is_told_why_it_is_refused(make_ingress, raw):
    ingress = make_ingress(source=source(), max_message_size=1000)
    script = raw(ingress.addresses["numbers"])
    script.greet()
    script.write(1, bytes(1001))
    assert script.next() == (REFUSED, b"it sent a message larger than 1,000 bytes (--max-message-size).")
    assert is_closed(script.socket)


def test_partitions_with_long_names_in_one_frame(make_ingress):
    ingress = make_ingress(source=source(), max_message_size=1000)
    with connected(ingress) as extension:
        for number in range(20_000):
            extension.write(b"", f"{number:0>200}", 1)
        assert extension.wait_acknowledged(timeout=PATIENCE)
    assert ingress.client.status()["numbers"]["end"] == 20_000


def test_more_partitions_than_can_be_remembered_are_refused(make_ingress, raw):
    ingress = make_ingress(source=source())
    script = raw(ingress.addresses["numbers"])
    script.greet()

    def write(first, end, sequence):
        names = [f"{number:x}" for number in range(first, end)]
        count = len(names)
        script.send(pack_messages(Messages(write.next, [b""] * count, names, range(count), [sequence] * count)))
        write.next += count

    write.next = 1
    for first in range(0, 1_000_000, 50_000):
        write(first, first + 50_000, 1)
    write(999_000, 1_000_000, 2)
    ingress.notice("more than 500,000 partitions")
    ingress.wait_for_end(1_001_000)
    write(999_999, 1_000_001, 3)
    while (came := script.next()).kind != REFUSED:
        pass
    assert came.body.startswith(b"it names new partitions, and 1,000,000 are known, which is the limit")
    assert ingress.client.status()["numbers"]["end"] == 1_001_000


def test_what_came_before_nonsense_counts(make_ingress, raw):
    ingress = make_ingress(source=source())
    script = raw(ingress.addresses["numbers"])
    script.send(
        hello("source", script="s") + pack_messages(Messages(1, [b"sense"], [], (), ())) + b"\xff\xff\xff\xff\x01"
    )
    ingress.wait_for_end(1)
    assert messages(ingress) == [b"sense"]


def test_questions_are_answered_when_what_they_tell_is_on_the_disk(make_ingress, raw):
    ingress = make_ingress(source=source())
    script = raw(ingress.addresses["numbers"])
    script.greet()
    script.send(pack_messages(Messages(1, [b"x"], ["a"], [0], [12])) + pack_ask(1, "a") + pack_ask(2, "b"))
    assert [unpack_stands(script.next().body) for _ in range(2)] == [(1, 12), (2, None)]
    assert unpack_durable(script.next().body) == 1


def test_a_script_that_says_goodbye_is_forgotten(make_ingress, raw):
    ingress = make_ingress(source=source())
    script = raw(ingress.addresses["numbers"])
    script.greet()
    script.write(1, b"1")
    assert unpack_durable(script.next().body) == 1
    script.send(frame(BYE))
    script.socket.shutdown(socket.SHUT_WR)
    assert is_closed(script.socket)
    assert raw(ingress.addresses["numbers"]).greet() == 0


def test_a_message_that_is_too_large_is_refused_where_it_is_written(make_ingress):
    ingress = make_ingress(source=source(), max_message_size=1000)
    with connected(ingress) as extension:
        extension.write(bytes(1000))
        with pytest.raises(wallaroo.WallarooError, match=r"1,001 bytes is too large: .* up to 1,000 bytes"):
            extension.write(bytes(1001))
    assert messages(ingress) == [bytes(1000)]


def test_senders_wait_while_too_much_is_unprocessed_and_nothing_is_lost(make_ingress):
    ingress = make_ingress(source=source(), max_log=1 << 20)
    total = 200
    with connected(ingress) as extension:
        written = 0
        while written < total:
            extension.write(b"%d " % written + bytes(100_000))
            written += 1
            if written == 50:
                ingress.notice("has reached its limit")
                end = 0
            if written >= 50:
                end = max(end, ingress.client.status()["numbers"]["end"])
                ingress.commit(end)
        while not extension.wait_acknowledged(timeout=0.01):
            ingress.commit(ingress.client.status()["numbers"]["end"])
    assert ingress.client.status()["numbers"]["end"] == total


def test_while_the_log_is_full_scripts_connect_and_ask_and_their_messages_wait(make_ingress, raw):
    ingress = make_ingress(source=source(), max_log=1 << 20)
    with connected(ingress) as extension:
        for number in range(20):
            extension.write(bytes(100_000), "a", number)
        ingress.notice("has reached its limit")
        for _ in range(20):
            script = raw(ingress.addresses["numbers"])
            accepted = script.greet("comes again")
            assert accepted == 0
            script.send(pack_ask(1, "b"))
            assert unpack_stands(script.next().body) == (1, None)
            script.write(1, b"waits")
        with connected(ingress) as other:
            assert other.resume_from("a") >= 0
            other.write(b"waits, too")
            assert not other.wait_acknowledged(timeout=0)
            while not other.wait_acknowledged(timeout=0.01):
                ingress.commit(ingress.client.status()["numbers"]["end"])
        while not extension.wait_acknowledged(timeout=0.01):
            ingress.commit(ingress.client.status()["numbers"]["end"])
        assert unpack_durable(script.next().body) == 1
    assert ingress.client.status()["numbers"]["end"] == 22


def test_a_script_that_does_not_read_the_answers_is_not_read(make_ingress, raw):
    ingress = make_ingress(source=source())
    script = raw(ingress.addresses["numbers"])
    script.greet()
    script.socket.settimeout(1)
    questions = b"".join(pack_ask(number, "a" * 1000) for number in range(1000))
    with pytest.raises(TimeoutError):
        # A thousand times what the kernel takes.
        [script.send(questions) for _ in range(100_000)]
    script.socket.settimeout(PATIENCE)
    assert unpack_stands(script.next().body) == (0, None)
    with connected(ingress) as extension:
        extension.write(b"others are")
    assert messages(ingress) == [b"others are"]


def test_of_many_scripts_each_has_all_its_messages_in_order(make_ingress):
    ingress = make_ingress(source=source())
    with ExitStack() as stack:
        scripts = [stack.enter_context(connected(ingress)) for _ in range(30)]
        for number in range(200):
            for index, extension in enumerate(scripts):
                extension.write(b"%d %d" % (index, number))
    by_script = {}
    for each in messages(ingress):
        index, number = map(int, each.split())
        by_script.setdefault(index, []).append(number)
    assert by_script == {index: list(range(200)) for index in range(30)}
