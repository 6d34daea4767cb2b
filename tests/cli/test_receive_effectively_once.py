"""`wallaroo receive --effectively-once`, as a process: each block is written once, whichever side is killed."""

import random
import signal
import socket
import struct
import subprocess
import sys
import time

import pytest
from tests.processes import PATIENCE

STREAM, OTHER = bytes(range(16)), bytes(range(16, 32))
ANSWER = struct.Struct(">Q")


def frame(number, body, stream=STREAM):
    return b"WAL1" + stream + struct.pack(">QQ", number, len(body)) + body


class Sender:
    """A connection on which blocks are sent and confirmed."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def answer(self):
        """Return the number that the receiver confirms next, None if it closes the connection."""
        data = b""
        while len(data) < ANSWER.size:
            try:
                some = self.socket.recv(ANSWER.size - len(data))
            except ConnectionError:
                return None
            if not some:
                return None
            data += some
        return ANSWER.unpack(data)[0]

    def deliver(self, number, body, stream=STREAM):
        self.socket.sendall(frame(number, body, stream))
        assert self.answer() == number


@pytest.fixture
def once(receive):
    return lambda *args, **options: receive("--effectively-once", *args, **options)


def finished(process, code=0):
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, err
    return out, err.decode()


def stopped(process):
    process.send_signal(signal.SIGTERM)
    return finished(process)


def test_repeats_are_dropped_on_the_same_and_on_other_connections(once):
    process, port = once()
    with Sender(port) as sender:
        sender.deliver(0, b"zero\n")
        sender.deliver(3, b"three\n")
        sender.deliver(3, b"three\n")
    with Sender(port) as sender:
        sender.deliver(3, b"three, computed anew\n")
        sender.deliver(0, b"zero\n")
        sender.deliver(4, b"four\n")
    out, report = stopped(process)
    assert out == b"zero\nthree\nfour\n"
    assert report.startswith("received 3 lines (")
    assert report.endswith("dropped blocks that were received before: 3 times\n")


def test_streams_are_distinguished(once):
    process, port = once()
    with Sender(port) as one, Sender(port) as other:
        one.deliver(0, b"a\n")
        other.deliver(0, b"b\n", OTHER)
        other.deliver(1, b"c\n", OTHER)
        one.deliver(1, b"d\n")
    assert stopped(process)[0] == b"a\nb\nc\nd\n"


def test_a_block_that_does_not_become_complete_is_not_written(once, tmp_path):
    process, port = once("--output", tmp_path / "out")
    with Sender(port) as sender:
        sender.deliver(0, b"zero\n")
        sender.socket.sendall(frame(1, b"one\n" * 100_000)[:-1])
    assert b"1 byte or more are missing" in process.stderr.readline()
    assert (tmp_path / "out").read_bytes() == b"zero\n"
    with Sender(port) as sender:
        sender.deliver(1, b"one\n" * 100_000)
    stopped(process)
    assert (tmp_path / "out").read_bytes() == b"zero\n" + b"one\n" * 100_000


def test_blocks_in_pieces_of_every_size(once):
    blocks = [b"one\n", b"", b"two\nthree\n", b"x" * 300 + b"\n"]
    data = b"".join(frame(number, body) for number, body in enumerate(blocks))
    process, port = once()
    with Sender(port) as sender:
        position = 0
        choose = random.Random(4)
        while position < len(data):
            size = choose.choice([1, 1, 2, 5, 36, 40])
            sender.socket.sendall(data[position : position + size])
            position += size
        assert [sender.answer() for _ in blocks] == [0, 1, 2, 3]
    assert stopped(process)[0] == b"".join(blocks)


def test_a_block_that_is_larger_than_what_is_kept_in_memory(once, tmp_path):
    body = bytes(random.Random(1).randbytes(1 << 20)) * 40
    process, port = once("--output", tmp_path / "out")
    with Sender(port) as sender:
        sender.deliver(0, body)
        sender.deliver(1, b"behind it")
    stopped(process)
    assert (tmp_path / "out").read_bytes() == body + b"behind it"


def test_frames_inside_blocks(once, framed):
    process, port = once("--framing", "u32be")
    with Sender(port) as sender:
        sender.deliver(0, framed([b"one", b"two"]))
        sender.deliver(0, framed([b"one", b"two"]))
        sender.deliver(1, framed([b"three"]))
        sender.deliver(2, framed([b"four"]) + b"\0\0")
    out, report = stopped(process)
    assert out == b"one\ntwo\nthree\nfour\n"
    assert report.splitlines()[0] == (
        "a block ends in the middle of a frame; does --framing match what the encoder returns?"
    )
    assert "received 4 messages" in report


def test_it_stops_with_the_block_that_has_the_nth_message(once):
    process, port = once("--messages", 3, "--quiet")
    with Sender(port) as sender:
        sender.socket.sendall(frame(0, b"1\n") + frame(1, b"2\n3\n4\n") + frame(2, b"5\n"))
        assert [sender.answer() for _ in range(3)] == [0, 1, None]
    assert finished(process) == (b"1\n2\n3\n4\n", "")


def test_count_only(once, tmp_path):
    process, port = once("--count-only", "--quiet", "--output", tmp_path / "count")
    with Sender(port) as sender:
        sender.deliver(0, b"1\n2\n")
        sender.deliver(0, b"1\n2\n")
        sender.deliver(1, b"3\n")
    stopped(process)
    assert (tmp_path / "count").read_text() == "3\n"
    assert [path.name for path in tmp_path.iterdir()] == ["count"]


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n\r\n", b"h", b"WAL2" + bytes(32), b"\0\0\0\5hello"])
def test_garbage_closes_its_connection_only(once, garbage):
    process, port = once()
    with Sender(port) as good, Sender(port) as bad:
        good.deliver(0, b"zero\n")
        bad.socket.sendall(garbage)
        assert bad.answer() is None
        line = process.stderr.readline().decode()
        assert line.startswith("closed a connection: what was received is not a framed block: it begins with b'")
        assert line.endswith("Does the sender run with --effectively-once?\n")
        good.deliver(1, b"one\n")
    assert stopped(process)[0] == b"zero\none\n"


class TestAfterARestart:
    def test_a_file_is_continued_and_earlier_blocks_are_known(self, once, tmp_path):
        output = tmp_path / "out"
        output.write_text("of another time, and without a record\n")
        process, port = once("--output", output)
        with Sender(port) as sender:
            sender.deliver(0, b"zero\n")
            sender.deliver(0, b"other zero\n", OTHER)
            process.kill()
            process.wait(PATIENCE)
        # As if it had been killed while it wrote a block.
        with output.open("ab") as file:
            file.write(b"half a bat")
        process, port = once("--output", output)
        with Sender(port) as sender:
            sender.deliver(0, b"zero\n")
            sender.deliver(1, b"one\n")
            sender.deliver(0, b"other zero\n", OTHER)
        stopped(process)
        assert output.read_bytes() == b"zero\nother zero\none\n"

    def test_standard_output_with_a_record(self, once, tmp_path):
        for expected in (b"zero\n", b""):
            process, port = once("--remember", tmp_path / "record")
            with Sender(port) as sender:
                sender.deliver(0, b"zero\n")
            assert stopped(process)[0] == expected

    def test_redirected_output_is_never_truncated(self, once, tmp_path):
        with (tmp_path / "out").open("ab") as file:
            file.write(b"before\n")
            file.flush()
            process, port = once(stdout=file)
            with Sender(port) as sender:
                sender.deliver(0, b"zero\n")
            stopped(process)
        assert (tmp_path / "out").read_bytes() == b"before\nzero\n"

    def test_an_output_that_has_become_shorter_is_refused(self, once, wallaroo, tmp_path):
        process, port = once("--output", tmp_path / "out")
        with Sender(port) as sender:
            sender.deliver(0, b"zero\n")
        stopped(process)
        (tmp_path / "out").write_text("z")
        arguments = ["receive", "127.0.0.1:0", "--effectively-once", "--output", tmp_path / "out"]
        _, report = finished(wallaroo(*arguments), code=1)
        assert report == (
            "Error: The output is shorter than the record of received blocks says, so it has been changed. "
            "To start fresh, delete both files.\n"
        )
        assert (tmp_path / "out").read_text() == "z"

    @pytest.mark.parametrize("content", ["", "{}", "[]", '{"length": "x", "batches": {}}', '{"length": 1}'])
    def test_an_invalid_record_is_refused(self, wallaroo, tmp_path, content):
        record = tmp_path / "record"
        record.write_text(content)
        arguments = ["receive", "127.0.0.1:0", "--effectively-once", "--remember", record]
        _, report = finished(wallaroo(*arguments), code=1)
        assert report == (
            f"Error: {record} is not a record of received blocks. Name another file with --remember, or delete "
            "this one to start fresh.\n"
        )

    def test_killed_again_and_again_while_blocks_come(self, once, tmp_path):
        output = tmp_path / "out"
        choose = random.Random(11)
        bodies = [b"block %d " % number * choose.choice([1, 100, 50_000]) + b"\n" for number in range(40)]
        confirmed = 0
        for _ in range(10):
            process, port = once("--output", output)
            with Sender(port) as sender:
                for _ in range(choose.randrange(5)):
                    sender.deliver(confirmed, bodies[confirmed])
                    confirmed += 1
                # Killed at any moment between the arrival of the next block and its record.
                sender.socket.sendall(frame(confirmed, bodies[confirmed]))
                time.sleep(choose.uniform(0, 0.005))
                process.kill()
                process.wait(PATIENCE)
                assert b"".join(bodies).startswith(output.read_bytes())
        process, port = once("--output", output)
        with Sender(port) as sender:
            for number in range(confirmed, len(bodies)):
                sender.deliver(number, bodies[number])
        stopped(process)
        assert output.read_bytes() == b"".join(bodies)


def test_a_full_disk_ends_it_with_the_last_whole_block(tmp_path):
    limited = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)); "
        "from wallaroo.cli.wallaroo import main; main()"
    )
    arguments = ["receive", "127.0.0.1:0", "--effectively-once", "--output", tmp_path / "out"]
    command = [sys.executable, "-c", limited, *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    port = int(process.stderr.readline().decode().rpartition(":")[2])
    with Sender(port) as sender:
        sender.deliver(0, b"zero\n")
        sender.socket.sendall(frame(1, b"x" * 200_000))
        assert sender.answer() is None
    _, report = finished(process, code=1)
    assert report == "Error: File too large\n"
    assert (tmp_path / "out").read_bytes() == b"zero\n"


def test_remember_goes_with_effectively_once(wallaroo, tmp_path):
    _, report = finished(wallaroo("receive", "127.0.0.1:0", "--remember", tmp_path / "record"), code=2)
    assert "--remember goes with --effectively-once." in report
