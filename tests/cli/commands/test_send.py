"""`wallaroo send`, as a process, against plain sockets."""

import os
import pty
import random
import re
import signal
import socket
import subprocess
import time
import tty

import pytest
from tests.processes import PATIENCE, WALLAROO, run_python

FRAMINGS = ["u8", "u16be", "u16le", "u32be", "u32le", "u64be", "u64le"]


def some_lines(count, longest, seed=1):
    generator = random.Random(seed)
    return [generator.randbytes(generator.randint(0, longest)).replace(b"\n", b"\r") for _ in range(count)]


def address_of(server):
    return "{}:{}".format(*server.getsockname())


def finished(process, code=0):
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, err
    assert out == b""
    return err.decode()


@pytest.mark.parametrize("framing", FRAMINGS)
def test_every_line_becomes_a_frame(wallaroo, listener, tmp_path, framing, framed):
    lines = some_lines(2000, 255)
    file = tmp_path / "lines"
    file.write_bytes(b"".join(line + b"\n" for line in lines))
    server = listener()

    report = finished(wallaroo("send", server.address, "--file", file, "--framing", framing))

    expected = framed(lines, framing)
    assert server.everything() == [expected]
    assert f"sent 2,000 messages ({len(expected):,} bytes) in " in report
    assert report.endswith("; all confirmed\n")
    assert len(report.splitlines()) == 1


def test_u32be_is_the_default(wallaroo, listener, tmp_path):
    file = tmp_path / "lines"
    file.write_bytes(b"why hello\nworld\n")
    server = listener()
    finished(wallaroo("send", server.address, "--file", file))
    assert server.everything() == [b"\0\0\0\x09why hello\0\0\0\x05world"]


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"\n\n", [b"", b""]),
        (b"last line without an end", [b"last line without an end"]),
        (b"one\n\ntwo", [b"one", b"", b"two"]),
        (b"dos\r\n\xff\xfe\x00\n", [b"dos\r", b"\xff\xfe\x00"]),
    ],
)
def test_only_newlines_are_stripped(wallaroo, listener, tmp_path, content, lines, framed):
    file = tmp_path / "lines"
    file.write_bytes(content)
    server = listener()
    finished(wallaroo("send", server.address, "--file", file))
    assert server.everything() == [framed(lines)]


def test_lines_longer_than_any_read(wallaroo, listener, tmp_path, framed):
    lines = [b"x" * 5_000_000, b"short", b"y" * 3_000_001]
    file = tmp_path / "lines"
    file.write_bytes(b"\n".join(lines))
    server = listener()
    finished(wallaroo("send", server.address, "--file", file))
    assert server.everything() == [framed(lines)]


def test_framing_none_sends_the_file_as_it_is(wallaroo, listener, tmp_path):
    content = b"one\ntwo\n\xff\nunfinished"
    file = tmp_path / "lines"
    file.write_bytes(content)
    server = listener()
    report = finished(wallaroo("send", server.address, "--file", file, "--framing", "none"))
    assert server.everything() == [content]
    assert "sent 4 messages (20 bytes)" in report


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_framing_lines_ends_every_line(wallaroo, listener, tmp_path, end):
    file = tmp_path / "lines"
    file.write_bytes(b"one\n\ntwo" + end)
    server = listener()
    report = finished(wallaroo("send", server.address, "--file", file, "--framing", "lines", "--repeat", "2"))
    assert server.everything() == [b"one\n\ntwo\n" * 2]
    assert "sent 6 messages (18 bytes)" in report


def test_a_line_too_long_for_its_header(wallaroo, listener, tmp_path):
    file = tmp_path / "lines"
    file.write_bytes(b"fits\n" + b"x" * 256 + b"\nnever sent\n")
    server = listener()
    report = finished(wallaroo("send", server.address, "--file", file, "--framing", "u8"), code=1)
    assert server.everything() == [b"\x04fits"]
    assert report == (
        "Error: a message of 256 bytes is longer than a u8 header can express (255 bytes): "
        "choose a larger one with --framing (1 message sent before it, confirmed)\n"
    )


@pytest.mark.parametrize("dash", [[], ["--file", "-"]])
def test_standard_input(wallaroo, listener, dash, framed):
    server = listener()
    process = wallaroo("send", server.address, *dash, stdin=subprocess.PIPE)
    process.stdin.write(b"to be\nor not")
    process.stdin.close()
    process.stdin = None
    finished(process)
    assert server.everything() == [framed([b"to be", b"or not"])]


def test_typed_lines_are_sent_one_by_one(wallaroo, framed):
    with socket.create_server(("127.0.0.1", 0)) as server:
        process = wallaroo("send", address_of(server), stdin=subprocess.PIPE)
        connection, _ = server.accept()
        with connection:
            connection.settimeout(PATIENCE)
            for word in (b"one", b"two"):
                process.stdin.write(word + b"\n")
                process.stdin.flush()
                assert connection.recv(7, socket.MSG_WAITALL) == framed([word])


def test_raw_frames_are_sent_as_they_are(wallaroo, listener, tmp_path, framed):
    stream = framed(some_lines(3000, 2000), "u16le")
    file = tmp_path / "frames"
    file.write_bytes(stream)
    server = listener()
    report = finished(wallaroo("send", server.address, "--file", file, "--raw", "--framing", "u16le"))
    assert server.everything() == [stream]
    assert "sent 3,000 messages" in report


def test_raw_frames_that_end_too_early(wallaroo, listener, tmp_path, framed):
    file = tmp_path / "frames"
    file.write_bytes(framed([b"whole", b"cut off"])[:-3])
    server = listener()
    report = finished(wallaroo("send", server.address, "--file", file, "--raw"), code=1)
    assert server.everything() == [framed([b"whole"])]
    assert (
        "ends in the middle of a u32be frame: 3 bytes or more are missing (1 message sent before it, confirmed)"
        in report
    )


def test_repeat_and_limit(wallaroo, listener, tmp_path, framed):
    file = tmp_path / "lines"
    file.write_bytes(b"a\nb\nc\n")
    server = listener()
    report = finished(wallaroo("send", server.address, "--file", file, "--repeat", 3, "--limit", 7))
    assert server.everything() == [framed([b"a", b"b", b"c", b"a", b"b", b"c", b"a"])]
    assert "sent 7 messages" in report


def test_standard_input_cannot_be_repeated(wallaroo):
    report = finished(wallaroo("send", "127.0.0.1:9", "--repeat", 2), code=2)
    assert "--repeat needs --file" in report


def test_quiet_prints_nothing(wallaroo, listener, tmp_path):
    file = tmp_path / "lines"
    file.write_bytes(b"a\n")
    server = listener()
    assert finished(wallaroo("send", server.address, "--file", file, "--quiet")) == ""


@pytest.mark.parametrize(("rate", "messages"), [(20, 10), (5000, 2500)])
def test_rate_keeps_the_schedule(wallaroo, listener, tmp_path, rate, messages, framed):
    lines = [b"%d" % number for number in range(messages)]
    file = tmp_path / "lines"
    file.write_bytes(b"\n".join(lines))
    server = listener()
    report = finished(wallaroo("send", server.address, "--file", file, "--rate", rate))
    assert server.everything() == [framed(lines)]
    # A slow machine may be late, none may be early: the last message is due (messages - 1) / rate seconds in.
    assert float(re.search(r"in ([0-9.]+) s", report)[1]) >= (messages - 1) / rate - 0.01


def test_many_lines(wallaroo, listener, tmp_path, framed):
    lines = some_lines(300_000, 12)
    file = tmp_path / "lines"
    file.write_bytes(b"\n".join(lines) + b"\n")
    server = listener(connections=2)
    finished(wallaroo("send", server.address, "--file", file))
    with file.open("rb") as stdin:
        finished(wallaroo("send", server.address, stdin=stdin))
    first, second = server.everything()
    assert first == framed(lines)
    assert second == first


def test_it_waits_for_the_listener(wallaroo, tmp_path, framed):
    file = tmp_path / "lines"
    file.write_bytes(b"patience\n")
    with socket.socket() as server:
        # Bound but not listening: connections are refused until it does.
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        process = wallaroo("send", f"127.0.0.1:{port}", "--file", file, "--retry", PATIENCE)
        waiting = process.stderr.readline().decode()
        assert waiting == f"waiting up to {PATIENCE} s for 127.0.0.1:{port} to accept connections\n"
        server.listen()
        connection, _ = server.accept()
        with connection:
            # Up to the end: a close before that confirms nothing.
            assert connection.recv(14, socket.MSG_WAITALL) == framed([b"patience"])
        assert "sent 1 message " in finished(process)


def test_no_listener(wallaroo, tmp_path):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        report = finished(wallaroo("send", f"127.0.0.1:{port}", "--retry", 0.3), code=1)
    waiting, error = report.splitlines()
    assert waiting == f"waiting up to 0.3 s for 127.0.0.1:{port} to accept connections"
    assert error == (
        f"Error: cannot connect to 127.0.0.1:{port}: connection refused (tried for 0.3 s). "
        "Is the program there running?"
    )


def test_a_broken_connection_reports_how_much_was_handed_over(wallaroo, tmp_path):
    file = tmp_path / "lines"
    file.write_bytes(b"0123456789\n" * 1_000_000)
    with socket.create_server(("127.0.0.1", 0)) as server:
        process = wallaroo("send", address_of(server), "--file", file, "--repeat", 100)
        connection, _ = server.accept()
        assert len(connection.recv(1_400_000, socket.MSG_WAITALL)) == 1_400_000
        connection.close()
        report = finished(process, code=8)
    match = re.search(r"broke the connection: ([0-9,]+) messages \(([0-9,]+) bytes\) had been handed over", report)
    messages, size = (int(number.replace(",", "")) for number in match.groups())
    assert 100_000 <= messages < 100_000_000
    assert messages == size // 14


def test_a_receiver_that_does_not_read_everything_is_noticed(wallaroo, tmp_path):
    file = tmp_path / "lines"
    file.write_bytes(b"a few messages\n" * 3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        process = wallaroo("send", address_of(server), stdin=subprocess.PIPE)
        connection, _ = server.accept()
        process.stdin.write(b"hello\n")
        process.stdin.flush()
        assert connection.recv(1)
        connection.close()
        report = finished(process, code=8)
    assert "broke the connection: 1 message (9 bytes) had been handed over; none of them is confirmed" in report


def test_an_input_that_fails_in_the_middle_is_reported_with_what_was_sent_before_it(wallaroo, framed):
    # The end of a terminal that a program holds fails when the other end is closed.
    master, terminal = pty.openpty()
    tty.setraw(terminal)
    with socket.create_server(("127.0.0.1", 0)) as server:
        process = wallaroo("send", address_of(server), stdin=master)
        os.close(master)
        connection, _ = server.accept()
        with connection:
            connection.settimeout(PATIENCE)
            os.write(terminal, b"hello\n")
            assert connection.recv(9, socket.MSG_WAITALL) == framed([b"hello"])
            os.close(terminal)
            assert connection.recv(1) == b""
        report = finished(process, code=1)
    assert report == "Error: standard input cannot be read: input/output error (1 message sent before it, confirmed)\n"


def test_a_file_that_cannot_be_read_is_named(wallaroo, listener):
    server = listener()
    report = finished(wallaroo("send", server.address, "--file", "/proc/self/mem", "--wait", 0), code=1)
    assert server.everything() == [b""]
    assert report == (
        "Error: /proc/self/mem cannot be read: input/output error (0 messages sent before it, not confirmed)\n"
    )


def test_a_closed_standard_input_is_reported_before_connecting(wallaroo):
    program = "import os, sys; os.close(0); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    with socket.create_server(("127.0.0.1", 0)) as server:
        done = run_python("-c", program, *WALLAROO[1:], "send", address_of(server), code=1)
    assert done.stderr == "Error: standard input is closed: name a file with --file, or write `< file`\n"


def test_interrupted(wallaroo, framed):
    with socket.create_server(("127.0.0.1", 0)) as server:
        process = wallaroo("send", address_of(server), stdin=subprocess.PIPE)
        connection, _ = server.accept()
        process.stdin.write(b"hello\n")
        process.stdin.flush()
        with connection:
            assert connection.recv(9, socket.MSG_WAITALL) == framed([b"hello"])
            process.send_signal(signal.SIGINT)
            report = finished(process, code=130)
    assert re.match(r"stopped: handed over at least (0 messages \(0|1 message \(9) bytes\)", report)
    assert report.endswith("; none of them is confirmed\n")


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("7010", "write host:port, such as 127.0.0.1:7010"),
        ("127.0.0.1:http", "the port must be a number"),
        ("127.0.0.1:65536", "the port must be a number"),
        ("::1:7010", "put the host in brackets"),
    ],
)
def test_an_invalid_address(wallaroo, address, reason):
    assert reason in finished(wallaroo("send", address), code=2)


def test_a_host_that_does_not_exist_is_not_waited_for(wallaroo):
    started = time.monotonic()
    report = finished(wallaroo("send", "no-such-host.invalid:7010", "--retry", 1000), code=1)
    assert report == "Error: no-such-host.invalid:7010: the host 'no-such-host.invalid' is not known\n"
    assert time.monotonic() - started < 1000


def test_a_file_that_does_not_exist(wallaroo, tmp_path):
    assert "does not exist" in finished(wallaroo("send", "127.0.0.1:9", "--file", tmp_path / "none"), code=2)
