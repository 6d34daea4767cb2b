"""How a sender knows: a connection that is closed cleanly says that all was accepted, and nothing else does."""

import contextlib
import errno
import itertools
import os
import signal
import socket
import threading
import time

import pytest

from .conftest import frame


def end_stream(connection):
    """End the stream, as a sender does that has sent everything, and return whether all was accepted."""
    try:
        connection.shutdown(socket.SHUT_WR)
        return connection.recv(1) == b""
    except OSError as error:
        # It was reset, perhaps before the stream was ended here.
        if error.errno not in {errno.ECONNRESET, errno.ENOTCONN}:
            raise
        return False


def is_broken(connection):
    """Wait for the end of a connection, and return whether it broke."""
    try:
        return connection.recv(1) != b""
    except ConnectionResetError:
        return True


def waiting_decoder(gate):
    """Return a decoder that waits between the reading of a message and the writing of it, until `gate` is there."""

    class Decoder:
        def header_length(self):
            return 1

        def payload_length(self, bs):
            gate.with_suffix(".waiting").touch()
            while not gate.exists():
                time.sleep(0.01)
            return bs[0]

    return Decoder


def wait_for(path):
    while not path.exists():
        time.sleep(0.01)


def test_a_stream_that_was_ended_and_accepted_is_closed_cleanly(make_ingress):
    ingress = make_ingress()
    with ingress.connect() as connection:
        connection.sendall(frame(b"x") * 1000)
        assert end_stream(connection)
    assert ingress.messages() == [b"x"] * 1000


@pytest.mark.parametrize("half", [frame(b"half a message")[:-1], frame(b"half a header")[:3]])
def test_a_stream_that_ends_inside_a_message_is_not_closed_cleanly(make_ingress, half):
    ingress = make_ingress()
    with ingress.connect() as connection:
        connection.sendall(frame(b"whole") + half)
        assert not end_stream(connection)
    assert f"inside a message: {len(half)} bytes" in ingress.notice("was closed")
    assert ingress.messages() == [b"whole"]


def test_a_kill_between_reading_and_writing_is_not_mistaken_for_acceptance(make_ingress, tmp_path):
    gate = tmp_path / "gate"
    ingress = make_ingress(decoder=waiting_decoder(gate))
    with ingress.connect() as connection:
        connection.sendall(b"\x04read")
        connection.shutdown(socket.SHUT_WR)
        wait_for(gate.with_suffix(".waiting"))
        os.kill(ingress.process.pid, signal.SIGKILL)
        assert is_broken(connection)
    gate.touch()
    ingress.notice("being restarted")
    assert ingress.messages() == []


def test_a_drain_ends_cleanly_only_what_the_senders_have_ended(make_ingress, tmp_path):
    gate = tmp_path / "gate"
    ingress = make_ingress(decoder=waiting_decoder(gate))
    with (
        ingress.connect() as busy,
        ingress.connect() as ended,
        ingress.connect() as ended_inside,
        ingress.connect() as going_on,
    ):
        busy.sendall(b"\x01b")
        wait_for(gate.with_suffix(".waiting"))
        # These are not read before the drain.
        ended.sendall(b"\x01e")
        ended.shutdown(socket.SHUT_WR)
        ended_inside.sendall(b"\x01i\x02h")
        ended_inside.shutdown(socket.SHUT_WR)
        going_on.sendall(b"\x01g")
        drain = threading.Thread(target=ingress.client.drain)
        drain.start()
        gate.touch()
        assert not is_broken(ended)
        assert is_broken(ended_inside)
        assert is_broken(going_on)
        assert is_broken(busy)
        drain.join()
    assert sorted(ingress.messages()) == [b"b", b"e", b"g", b"i"]


def test_a_framing_error_is_not_mistaken_for_acceptance(make_ingress):
    ingress = make_ingress(max_message_size=10)
    with ingress.connect() as connection:
        connection.sendall(frame(b"fine") + frame(bytes(100)))
        assert not end_stream(connection)
    assert ingress.messages() == [b"fine"]


def test_when_the_parent_dies_no_sender_counts_lost_messages_as_accepted(make_ingress, capfd):
    ingress = make_ingress()
    accepted = []
    over = threading.Event()

    def send_short_streams(sender):
        with contextlib.suppress(OSError):
            for number in itertools.takewhile(lambda _: not over.is_set(), itertools.count()):
                with ingress.connect() as connection:
                    connection.sendall(frame(b"%d %d" % (sender, number)))
                    if end_stream(connection):
                        accepted.append(b"%d %d" % (sender, number))

    def send_without_end():
        with contextlib.suppress(OSError), ingress.connect() as connection:
            while True:
                connection.sendall(frame(b"x" * 1000) * 100)

    senders = [threading.Thread(target=send_short_streams, args=(sender,)) for sender in range(2)]
    senders += [threading.Thread(target=send_without_end) for _ in range(3)]
    for sender in senders:
        sender.start()
    while len(accepted) < 100:
        time.sleep(0.01)
    # The process takes the end of its standard input for the death of its parent.
    ingress.process._child.stdin.close()
    ingress.notice("is being restarted")
    over.set()
    for sender in senders:
        sender.join(60)
    assert set(accepted) <= set(ingress.messages())
    assert "Traceback" not in capfd.readouterr().err
