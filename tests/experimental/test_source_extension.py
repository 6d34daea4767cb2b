"""The script's half of a source, against a server that says what a test wants."""

import contextlib
import logging
import os
import socket
import subprocess
import sys
import threading
import time

import pytest
from tests.processes import run_python

from wallaroo import WallarooError
from wallaroo.connectors.extension.protocol import (
    MESSAGES,
    REFUSED,
    Hello,
    Incoming,
    frame,
    hello,
    pack_durable,
    unpack_messages,
)
from wallaroo.experimental import SourceExtension, streaming_message_encoder
from wallaroo.experimental import source_extension as module

PATIENCE = 60


class Application:
    """An application that answers when it is told to."""

    def __init__(self):
        self.server = socket.create_server(("127.0.0.1", 0))
        self.server.settimeout(PATIENCE)
        self.address = self.server.getsockname()
        self.connection = None

    def accept(self, answer=None, accepted=0, largest=1 << 20):
        if self.connection is not None:
            self.connection.close()
        self.connection, _ = self.server.accept()
        self.connection.settimeout(PATIENCE)
        self.incoming, self.came = Incoming(1 << 20), []
        said = self.next()
        self.connection.sendall(answer or hello("application", accepted=accepted, largest=largest))
        return said

    def next(self):
        while not self.came:
            data = self.connection.recv(1 << 16)
            assert data, "the script has closed the connection"
            self.came += self.incoming.feed(data)
        return self.came.pop(0)

    def messages(self, count):
        """Return the next messages, with their numbers."""
        found = []
        while len(found) < count:
            came = self.next()
            assert came.kind == MESSAGES
            some = unpack_messages(came.body)
            found += enumerate(some.payloads, some.first)
        return found

    def tell(self, number):
        self.connection.sendall(pack_durable(number))


@pytest.fixture
def application():
    made = Application()
    with made.server:
        yield made
        if made.connection is not None:
            made.connection.close()


@pytest.fixture
def extension():
    made = SourceExtension(bytes)
    yield made
    with contextlib.suppress(WallarooError):
        made.close(0)


def connect(extension, application, **options):
    """Connect; return the hello of the script."""
    thread = threading.Thread(target=lambda: extension.connect(*application.address))
    thread.start()
    said = application.accept(**options)
    thread.join(PATIENCE)
    return said


def test_what_was_not_accepted_is_sent_again_and_what_is_not_durable_is_kept(application, extension):
    first = connect(extension, application)
    for number in range(1, 7):
        assert extension.write(b"%d" % number) == number
    assert application.messages(6) == [(number, b"%d" % number) for number in range(1, 7)]
    application.tell(2)
    assert extension.wait_acknowledged(2, PATIENCE)
    assert not extension.wait_acknowledged(3, 0)
    again = application.accept(accepted=6)
    assert again.says == first.says
    extension.write(b"7")
    assert application.messages(1) == [(7, b"7")]
    # After a power failure the application does not have what it had only accepted. Frames are sent as a whole.
    application.accept(accepted=6)
    assert application.messages(1) == [(7, b"7")]
    application.tell(7)
    assert extension.wait_acknowledged(timeout=PATIENCE)
    assert extension.acknowledged == 7


def test_write_waits_while_too_much_is_not_acknowledged(application, extension, monkeypatch):
    monkeypatch.setattr(module, "_MOST_BYTES", 10_000)
    connect(extension, application)
    written = []

    def write():
        written.extend(extension.write(bytes(900)) for _ in range(30))

    thread = threading.Thread(target=write)
    thread.start()
    # A thousand bytes each: one more than fits, and no other.
    application.messages(11)
    application.connection.settimeout(0.2)
    with pytest.raises(TimeoutError):
        application.messages(1)
    application.connection.settimeout(PATIENCE)
    application.tell(11)
    application.messages(11)
    application.tell(22)
    application.messages(8)
    thread.join(PATIENCE)
    assert written == list(range(1, 31))
    application.tell(30)


def test_close_waits_until_everything_is_acknowledged(application, extension):
    connect(extension, application)
    extension.write(b"1")
    assert application.messages(1) == [(1, b"1")]
    results = []
    thread = threading.Thread(target=lambda: results.append(extension.close()))
    thread.start()
    assert not extension.wait_acknowledged(timeout=0)
    application.tell(1)
    thread.join(PATIENCE)
    assert results == [True]
    with pytest.raises(WallarooError, match="is closed"):
        extension.write(b"2")
    with pytest.raises(WallarooError, match="is closed"):
        extension.resume_from("x")


def test_close_gives_up_after_its_timeout(application, extension):
    connect(extension, application)
    extension.write(b"1")
    assert not extension.close(0)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"220 mail.example ESMTP\r\n", "it sent b'220 mail.example', which is not how an extension"),
        (Hello(7, {"role": "application"}).pack(), "speaks version 7 of the protocol of extensions, and this side"),
        (hello("sink", confirmed=[-1, 0, 0]), "its hello is that of something else"),
    ],
)
def test_what_is_no_application_is_an_error_that_says_what_it_is(application, extension, answer, words):
    errors = []

    def run():
        try:
            extension.connect(*application.address)
        except WallarooError as error:
            errors.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    application.accept(answer=answer)
    thread.join(PATIENCE)
    [error] = errors
    assert words in error
    assert f"127.0.0.1:{application.address[1]}" in error


def test_a_failure_after_the_last_message_is_not_silent(application, caplog):
    failing = SourceExtension(bytes)

    def use():
        with failing:
            connect(failing, application)
            failing.write(b"1")
            application.messages(1)
            thread.start()

    thread = threading.Thread(target=lambda: application.accept(answer=Hello(7, {"role": "application"}).pack()))
    with pytest.raises(WallarooError, match="speaks version 7 of the protocol"):
        use()
    thread.join(PATIENCE)
    [line] = [each for each in caplog.messages if "speaks version 7" in each]
    assert line.endswith("Messages that the application has not confirmed: 1.")


def test_what_an_application_refuses_is_not_sent_again(application, extension):
    connect(extension, application)
    extension.write(b"1")
    application.messages(1)
    application.connection.sendall(frame(REFUSED, b"it makes no sense."))
    with pytest.raises(WallarooError, match="has refused what this script has sent: it makes no sense"):
        extension.wait_acknowledged(timeout=PATIENCE)
    with pytest.raises(WallarooError, match="it makes no sense"):
        extension.close()


@pytest.mark.parametrize("is_sent", [True, False])
def test_what_an_application_no_longer_takes_is_an_error(application, extension, is_sent):
    connect(extension, application)
    if is_sent:
        extension.write(bytes(1001))
        application.messages(1)
    application.connection.close()
    if not is_sent:
        extension.write(bytes(1001))
    application.accept(largest=1000)
    with pytest.raises(WallarooError, match=r"1,001 bytes was written, and now it takes messages of up to 1,000 bytes"):
        extension.wait_acknowledged(timeout=PATIENCE)
    with pytest.raises(WallarooError, match="1,001 bytes"):
        extension.close()


def test_an_application_that_is_not_there_is_waited_for(application, extension, caplog):
    caplog.set_level(logging.WARNING)
    address = application.address
    application.server.close()
    thread = threading.Thread(target=lambda: extension.connect(*address))
    thread.start()
    while not caplog.records:
        time.sleep(0.001)
    application.server = socket.create_server(address)
    application.server.settimeout(PATIENCE)
    application.accept()
    thread.join(PATIENCE)
    assert caplog.messages[0].startswith(f"Waiting for the application at 127.0.0.1:{address[1]} (connection refused)")
    application.server.close()


def test_a_copy_of_the_process_is_told_to_connect_itself(application, extension):
    unconnected = SourceExtension(bytes)
    connect(extension, application)
    extension.write(b"1")
    reads, writes = os.pipe()
    if (child := os.fork()) == 0:
        try:
            extension.write(b"2")
        except WallarooError as error:
            os.write(writes, f"{error} {extension.close()} {unconnected.acknowledged}".encode())
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as said:
        assert said.read().decode() == (
            "This SourceExtension was connected in another process, of which this one is a copy: make and connect one "
            "in this process. True 0"
        )
    os.waitpid(child, 0)
    assert application.messages(1) == [(1, b"1")]
    application.tell(1)
    assert extension.close(PATIENCE)


def test_copies_of_a_process_are_different_scripts(application):
    made = SourceExtension(bytes)
    ids = []
    for _ in range(2):
        if (child := os.fork()) == 0:
            made.connect(*application.address)
            os._exit(0)
        ids.append(application.accept().says["script"])
        os.waitpid(child, 0)
    assert len(set(ids)) == 2


def test_the_encoder_is_checked(application):
    results = iter([5, None, "é", bytearray(b"x")])

    @streaming_message_encoder
    def encode(_message):
        return next(results)

    extension = SourceExtension(encode)
    connect(extension, application)
    with pytest.raises(WallarooError, match=r"The encoder must return bytes or text; it returned 5 \(an int\)"):
        extension.write("")
    assert extension.write("") == 0
    assert [extension.write("") for _ in range(2)] == [1, 2]
    assert application.messages(2) == [(1, "é".encode()), (2, b"x")]
    application.tell(2)
    extension.close(PATIENCE)


def test_a_codec_that_is_none_is_refused():
    with pytest.raises(
        WallarooError, match=r"must be a function with @wallaroo.experimental.streaming_message_encoder"
    ):
        SourceExtension(5)
    codec = type("Codec", (), {"encode": lambda _, message: message})
    with pytest.raises(WallarooError, match=r"The encoder is the class Codec: write Codec\(\) to make one"):
        SourceExtension(codec)


def test_a_script_that_ends_without_close_sends_what_it_has_written(application):
    program = (
        "import sys, wallaroo.experimental as e\n"
        "extension = e.SourceExtension(str)\n"
        "extension.connect('127.0.0.1', sys.argv[1])\n"
        "for number in range(5): extension.write(number)\n"
    )
    command = [sys.executable, "-c", program, str(application.address[1])]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as script:
        application.accept()
        assert application.messages(5) == [(number + 1, b"%d" % number) for number in range(5)]
        application.tell(5)
        assert script.wait(PATIENCE) == 0
        assert script.stderr.read() == ""


def test_scripts_need_no_spark():
    left_out = ("pyspark", "pyarrow", "numpy", "click", "rich", "confluent_kafka", "wallaroo.ingress")
    program = f"import sys, wallaroo.experimental; print([name for name in {left_out} if name in sys.modules])"
    assert run_python("-c", program).stdout == "[]\n"
