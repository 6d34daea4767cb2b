"""`wallaroo receive`, as a process, against plain sockets and against `wallaroo send`."""

import random
import signal
import socket
import subprocess
import threading

import pytest
from tests.processes import PATIENCE

FRAMINGS = ["u8", "u16be", "u16le", "u32be", "u32le", "u64be", "u64le"]


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)


def send(port, data):
    with connect(port) as connection:
        connection.sendall(data)


def finished(process, code=0):
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, err
    return out, err.decode()


def some_messages(count, longest, seed=1):
    generator = random.Random(seed)
    return [generator.randbytes(generator.randint(0, longest)).replace(b"\n", b"\r") for _ in range(count)]


def test_bytes_are_printed_unchanged(receive, tmp_path):
    content = random.Random(1).randbytes(3_000_000)
    lines = content.count(b"\n")
    file = tmp_path / "out"
    process, port = receive("--output", file, "--messages", lines)
    send(port, content)
    out, report = finished(process)
    assert out == b""
    assert file.read_bytes() == content[: content.rindex(b"\n") + 1]
    assert f"received {lines:,} lines" in report


@pytest.mark.parametrize("framing", FRAMINGS)
def test_frames_are_printed_one_per_line(receive, framed, framing):
    messages = some_messages(2000, 255)
    process, port = receive("--framing", framing, "--messages", 2000)
    send(port, framed(messages, framing))
    out, report = finished(process)
    assert out == b"".join(message + b"\n" for message in messages)
    assert "received 2,000 messages" in report


@pytest.mark.parametrize("framing", [*FRAMINGS, "none"])
def test_round_trip_with_send(receive, wallaroo, tmp_path, framing):
    content = b"".join(message + b"\n" for message in some_messages(20_000, 200))
    file = tmp_path / "in"
    file.write_bytes(content)
    process, port = receive("--framing", framing, "--messages", 20_000, "--quiet")
    # A receiver that stops after so many messages may do so before the sender has ended its stream.
    sending = wallaroo("send", f"127.0.0.1:{port}", "--file", file, "--framing", framing, "--quiet", "--wait", "0")
    assert finished(process) == (content, "")
    assert finished(sending) == (b"", "")


def test_frames_in_pieces_of_every_size(receive, framed):
    messages = [*some_messages(50, 40), b"x" * 3_000_000]
    stream = framed(messages)
    process, port = receive("--framing", "u32be", "--messages", len(messages))
    with connect(port) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for position in range(0, 2000, 3):
            connection.sendall(stream[position : position + 3])
        connection.sendall(stream[2001:])
        out, _ = finished(process)
    assert out == b"".join(message + b"\n" for message in messages)


def test_it_stops_exactly_after_n_lines(receive):
    process, port = receive("--messages", 3)
    send(port, b"one\ntwo\nthree\nfour\n")
    out, report = finished(process)
    assert out == b"one\ntwo\nthree\n"
    assert "received 3 lines" in report


def test_it_stops_exactly_after_n_frames(receive, framed):
    process, port = receive("--messages", 2, "--framing", "u32be")
    send(port, framed([b"one", b"two", b"three"]))
    out, report = finished(process)
    assert out == b"one\ntwo\n"
    assert "received 2 messages" in report


def test_a_last_line_without_an_end_counts(receive):
    process, port = receive("--messages", 2)
    send(port, b"one\nunfinished")
    out, report = finished(process)
    assert out == b"one\nunfinished"
    assert "received 2 lines (14 bytes) through 1 connection" in report


def test_connections_one_after_the_other(receive):
    process, port = receive("--messages", 3)
    for word in (b"one\n", b"two\n", b"three\n"):
        send(port, word)
    out, report = finished(process)
    assert sorted(out.split()) == [b"one", b"three", b"two"]
    assert "through 3 connections" in report


def test_connections_at_once(receive, framed):
    process, port = receive("--framing", "u32be", "--messages", 4000)
    everything = [some_messages(1000, 300, seed) for seed in range(4)]
    senders = [threading.Thread(target=send, args=(port, framed(messages))) for messages in everything]
    for sender in senders:
        sender.start()
    out, _ = finished(process)
    for sender in senders:
        sender.join(PATIENCE)
    expected = [message for messages in everything for message in messages]
    assert sorted(out.split(b"\n")[:-1]) == sorted(expected)
    # Frames of one connection keep their order, whatever the others do between them.
    mine = set(everything[0]) - {message for messages in everything[1:] for message in messages}
    assert [m for m in out.split(b"\n")[:-1] if m in mine] == [m for m in everything[0] if m in mine]


def test_data_is_printed_while_the_connection_is_open(receive):
    process, port = receive()
    with connect(port) as connection:
        for word in (b"one\n", b"two\n"):
            connection.sendall(word)
            assert process.stdout.readline() == word


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_as_intended(receive, signal_number):
    process, port = receive()
    with connect(port) as connection:
        connection.sendall(b"hello\n")
        assert process.stdout.readline() == b"hello\n"
        process.send_signal(signal_number)
        out, report = finished(process)
    assert out == b""
    assert report.startswith("received 1 line (6 bytes) through 1 connection in ")
    assert len(report.splitlines()) == 1


def test_it_stops_after_some_seconds_without_any_connection(receive):
    process, _ = receive("--seconds", 0.2)
    assert finished(process) == (b"", "received 0 lines (0 bytes) through 0 connections in 0.00 s\n")


def test_it_stops_when_no_more_data_arrives(receive):
    process, port = receive("--idle", 0.3)
    with connect(port) as connection:
        connection.sendall(b"hello\n")
        out, _ = finished(process)
    assert out == b"hello\n"


def test_idle_waits_for_the_first_data(receive):
    process, port = receive("--idle", 0.01)
    with connect(port) as connection:
        # It ends an instant after the first data, not before.
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        connection.sendall(b"hello\n")
        assert finished(process)[0] == b"hello\n"


@pytest.mark.parametrize(("framing", "count"), [("none", 3), ("u8", 5)])
def test_count_only(receive, tmp_path, framing, count):
    process, port = receive("--framing", framing, "--count-only", "--messages", count, "--quiet")
    send(port, b"\x02\n\n\x00\x01a\x00\x02b\n\x01")
    assert finished(process) == (f"{count}\n".encode(), "")


def test_a_frame_cut_off_is_reported(receive):
    process, port = receive("--framing", "u32be", "--messages", 1, "--quiet")
    send(port, b"\0\0\0\x05abc")
    assert process.stderr.readline() == (b"a connection ended in the middle of a frame: 2 bytes or more are missing\n")
    send(port, b"\0\0\0\x02ok")
    assert finished(process) == (b"ok\n", "")


def test_a_port_in_use(wallaroo):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        out, report = finished(wallaroo("receive", f"127.0.0.1:{port}"), code=1)
    assert out == b""
    assert report == (
        f"Error: cannot listen on 127.0.0.1:{port}: address already in use. "
        "Stop the program that uses it, or name another address.\n"
    )


def test_a_host_that_is_not_known(wallaroo):
    _, report = finished(wallaroo("receive", "no-such-host.invalid:7002"), code=1)
    assert report == "Error: no-such-host.invalid:7002: the host 'no-such-host.invalid' is not known\n"


def test_a_folder_that_does_not_exist(wallaroo, tmp_path):
    _, report = finished(wallaroo("receive", "127.0.0.1:0", "--output", tmp_path / "no" / "file"), code=1)
    assert report == f"Error: {tmp_path / 'no' / 'file'}: No such file or directory\n"


def test_a_reader_that_closes_the_pipe(receive):
    process, port = receive()
    with connect(port) as connection:
        connection.sendall(b"one\n")
        assert process.stdout.readline() == b"one\n"
        process.stdout.close()
        connection.sendall(b"two\n")
        assert process.wait(PATIENCE) == 0
        assert process.stderr.read().startswith(b"received ")


def test_ipv6(wallaroo):
    process = wallaroo("receive", "[::1]:0", "--messages", "1")
    line = process.stderr.readline().decode()
    assert line.startswith("listening on [::1]:")
    with socket.create_connection(("::1", int(line.rpartition(":")[2])), timeout=PATIENCE) as connection:
        connection.sendall(b"six\n")
    assert finished(process)[0] == b"six\n"


def test_much_data(receive, tmp_path):
    line = b"a line of sixteen\n"
    file = tmp_path / "out"
    process, port = receive("--output", file, "--messages", 2_000_000)
    with connect(port) as connection:
        for _ in range(100):
            connection.sendall(line * 20_000)
    _, report = finished(process)
    assert "received 2,000,000 lines" in report
    assert file.stat().st_size == len(line) * 2_000_000
