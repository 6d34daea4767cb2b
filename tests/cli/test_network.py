"""What `wallaroo send` says of messages that the receiver has, or has not, confirmed: all of them or none."""

import signal
import socket
import struct
import subprocess

import pytest
from tests.processes import PATIENCE

IN_DOUBT = "1 message (9 bytes) had been handed over; none of them is confirmed, and some may have been accepted"


@pytest.fixture
def server():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture
def sending(wallaroo, server):
    """Start `wallaroo send` with one message; return the process and the connection, all of which was read."""
    opened = []

    def start(*options):
        process = wallaroo("send", "{}:{}".format(*server.getsockname()), *options, stdin=subprocess.PIPE)
        process.stdin.write(b"hello\n")
        process.stdin.close()
        process.stdin = None
        connection, _ = server.accept()
        opened.append(connection)
        connection.settimeout(PATIENCE)
        assert connection.recv(10, socket.MSG_WAITALL) == b"\0\0\0\5hello"
        return process, connection

    yield start
    for connection in opened:
        connection.close()


def finished(process, code):
    _, report = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, report
    return report.decode()


def wait_until_it_waits(process, server):
    """Wait until the command reports what it waits for."""
    line = process.stderr.readline().decode()
    address = "{}:{}".format(*server.getsockname())
    assert line == (
        f"waiting for {address} to confirm 1 message: it closes the connection when it has accepted all of them\n"
    )


def test_nothing_is_reported_as_sent_before_the_receiver_has_closed_the_connection(sending, server):
    process, connection = sending()
    wait_until_it_waits(process, server)
    assert process.poll() is None
    connection.close()
    report = finished(process, 0)
    assert report.startswith("sent 1 message (9 bytes) in ")
    assert report.endswith("; all confirmed\n")


def test_data_from_the_receiver_is_no_confirmation(sending, server):
    process, connection = sending()
    connection.sendall(b"thank you\n")
    wait_until_it_waits(process, server)
    connection.close()
    assert finished(process, 0).endswith("; all confirmed\n")


def test_a_reset_confirms_nothing(sending):
    process, connection = sending()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    assert finished(process, 8) == (
        f"Error: the receiver broke the connection: {IN_DOUBT}. An application reports why it closes a connection\n"
    )


def test_a_receiver_that_closed_before_the_end_confirms_nothing(wallaroo, server):
    process = wallaroo("send", "{}:{}".format(*server.getsockname()), stdin=subprocess.PIPE)
    process.stdin.write(b"hello\n")
    process.stdin.flush()
    connection, _ = server.accept()
    with connection:
        assert connection.recv(9, socket.MSG_WAITALL) == b"\0\0\0\5hello"
    process.stdin.write(b"goodbye\n")
    process.stdin.close()
    process.stdin = None
    report = finished(process, 8)
    assert "2 messages (20 bytes) had been handed over; none of them is confirmed" in report


def test_a_ctrl_c_while_it_waits(sending, server):
    process, _ = sending()
    wait_until_it_waits(process, server)
    process.send_signal(signal.SIGINT)
    report = finished(process, 130)
    assert report.startswith("stopped: handed over at least 1 message (9 bytes) in ")
    assert report.endswith("; none of them is confirmed\n")


def test_the_wait_can_be_limited(sending):
    process, _ = sending("--wait", "0.1")
    assert finished(process, 8) == f"Error: the receiver has not confirmed within 0.1 s: {IN_DOUBT}\n"


def test_without_a_wait_nothing_is_reported_as_sent(sending):
    process, _ = sending("--wait", "0")
    report = finished(process, 0)
    assert report.startswith("handed over 1 message (9 bytes) in ")
    assert report.endswith("; not waiting for a confirmation\n")


def test_quiet_waits_silently(sending):
    process, _ = sending("--quiet", "--wait", "1.5")
    assert finished(process, 8).startswith("Error: the receiver has not confirmed within 1.5 s")


def test_an_input_that_cannot_be_framed_and_a_receiver_that_does_not_confirm(wallaroo, server, tmp_path):
    file = tmp_path / "lines"
    file.write_bytes(b"fits\n" + b"x" * 256 + b"\n")
    process = wallaroo(
        "send", "{}:{}".format(*server.getsockname()), "--framing", "u8", "--wait", "0.1", "--file", file
    )
    connection, _ = server.accept()
    with connection:
        report = finished(process, 8)
    assert "longer than a u8 header can express" in report
    assert "the receiver has not confirmed within 0.1 s: 1 message (5 bytes) had been handed over" in report


@pytest.mark.parametrize("said", [b"", b"welcome\n"])
def test_a_receiver_that_ended_its_side_before_everything_was_sent_confirms_nothing(wallaroo, server, said):
    process = wallaroo("send", "{}:{}".format(*server.getsockname()), stdin=subprocess.PIPE)
    connection, _ = server.accept()
    with connection:
        connection.sendall(said)
        connection.shutdown(socket.SHUT_WR)
        process.stdin.write(b"hello\n")
        process.stdin.close()
        process.stdin = None
        report = finished(process, 8)
    assert report.startswith("Error: the receiver ended its side of the connection before everything was sent")
    assert IN_DOUBT in report


def test_one_that_always_does_so_can_be_sent_to_without_a_confirmation(wallaroo, server):
    process = wallaroo("send", "{}:{}".format(*server.getsockname()), "--wait", "0", stdin=subprocess.PIPE)
    connection, _ = server.accept()
    with connection:
        connection.shutdown(socket.SHUT_WR)
        process.stdin.write(b"hello\n")
        process.stdin.close()
        process.stdin = None
        assert finished(process, 0).endswith("; not waiting for a confirmation\n")


def test_a_receiver_that_takes_nothing_more_is_given_up_after_the_wait(wallaroo, server, tmp_path):
    file = tmp_path / "lines"
    file.write_bytes(b"0123456789\n" * 1_000_000)
    arguments = ["--file", file, "--repeat", "100", "--wait", "0.2"]
    process = wallaroo("send", "{}:{}".format(*server.getsockname()), *arguments)
    connection, _ = server.accept()
    with connection:
        report = finished(process, 8)
    assert report.startswith("Error: the receiver has accepted nothing for 0.2 s: ")
    assert report.endswith("had been handed over; none of them is confirmed, and some may have been accepted\n")
