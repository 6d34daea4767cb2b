"""The ingress process as a whole: real connections, a real child, real signals."""

from __future__ import annotations

import os
import random
import signal
import socket
import struct
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import psutil
import pytest

from wallaroo.errors import WallarooError
from wallaroo.ingress.client import IngressClient

from .conftest import is_closed


def frame(payload):
    return struct.pack(">I", len(payload)) + payload


def in_pieces(stream, seed):
    """Cut bytes into pieces of random sizes, as a network would."""
    chance = random.Random(seed)
    while stream:
        size = chance.choice([1, 3, 7, 1000, 50_000])
        yield stream[:size]
        stream = stream[size:]


def test_many_connections_at_once_lose_nothing_and_keep_their_order(make_ingress):
    ingress = make_ingress(segment_bytes=20_000)
    sent = {sender: [b"%d:%d" % (sender, number) for number in range(3000)] for sender in range(6)}

    def send(sender):
        with ingress.connect() as connection:
            for piece in in_pieces(b"".join(map(frame, sent[sender])), sender):
                connection.sendall(piece)

    threads = [threading.Thread(target=send, args=[sender]) for sender in sent]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ingress.wait_for_end(18_000)
    messages = ingress.messages()
    assert len(messages) == 18_000
    for sender, expected in sent.items():
        assert [message for message in messages if message.startswith(b"%d:" % sender)] == expected


def test_sources_are_kept_apart(make_ingress):
    ingress = make_ingress(names=("left", "right"))
    ingress.send([b"l"] * 3, "left")
    ingress.send([b"r"] * 5, "right")
    ingress.wait_for_end(3, "left")
    ingress.wait_for_end(5, "right")
    assert ingress.messages("left") == [b"l"] * 3
    assert ingress.messages("right") == [b"r"] * 5
    assert ingress.addresses["left"] != ingress.addresses["right"]


def test_a_bad_frame_closes_only_its_connection(make_ingress):
    ingress = make_ingress(max_message_size=1000)
    with ingress.connect() as good, ingress.connect() as bad:
        good.sendall(frame(b"before"))
        ingress.wait_for_end(1)
        bad.sendall(frame(b"fine") + b"GET / HTTP/1.1\r\n")
        peer = "{}:{}".format(*bad.getsockname())
        text = ingress.notice("was closed")
        assert is_closed(bad)
        good.sendall(frame(b"after"))
        ingress.wait_for_end(3)
    assert f"The connection from {peer} to 'numbers' was closed: a header gives a message length" in text
    assert "more than the 1 kB that are accepted (--max-message-size)" in text
    assert ingress.messages() == [b"before", b"fine", b"after"]


def test_a_connection_closed_inside_a_message_is_reported(make_ingress):
    ingress = make_ingress()
    with ingress.connect() as connection:
        connection.sendall(frame(b"whole") + frame(b"half of it")[:-3])
    assert "11 bytes of an unfinished message were dropped" in ingress.notice("inside a message")
    assert ingress.messages() == [b"whole"]


def test_a_decoder_that_fails_closes_the_connection_and_prints_nothing_between_our_lines(make_ingress):
    class Decoder:
        def header_length(self):
            return 2

        def payload_length(self, bs):
            print("asked for", bs)
            return int(bs)

    ingress = make_ingress(decoder=Decoder)
    with ingress.connect() as connection:
        connection.sendall(b"02ok??")
        assert is_closed(connection)
    assert "payload_length() raised ValueError" in ingress.notice("was closed")
    assert ingress.messages() == [b"ok"]


def test_a_decoder_from_a_module_is_found_on_the_module_path(make_ingress, tmp_path, monkeypatch):
    (tmp_path / "my_codecs.py").write_text(
        textwrap.dedent("""
        print("imported")
        class OneByte:
            def header_length(self):
                return 1
            def payload_length(self, bs):
                return bs[0]
        """)
    )
    monkeypatch.syspath_prepend(tmp_path)
    import my_codecs  # noqa: PLC0415

    ingress = make_ingress(decoder=my_codecs.OneByte())
    with ingress.connect() as connection:
        connection.sendall(b"\3abc\0")
    ingress.wait_for_end(2)
    assert ingress.messages() == [b"abc", b""]


def test_a_program_that_cannot_be_built_is_reported(make_ingress, tmp_path, monkeypatch):
    (tmp_path / "gone_codecs.py").write_text("class Gone: pass")
    monkeypatch.syspath_prepend(tmp_path)
    import gone_codecs  # noqa: PLC0415

    (tmp_path / "gone_codecs.py").unlink()
    with pytest.raises(WallarooError) as caught:
        make_ingress(decoder=gone_codecs.Gone())
    text = str(caught.value)
    assert text.startswith("application_setup failed in the process that accepts connections, though not in machida:\n")
    assert "No module named 'gone_codecs'" in text


def test_a_decoder_that_cannot_frame_is_reported_at_the_start(make_ingress):
    class Decoder:
        def header_length(self):
            return "four"

        def payload_length(self, bs):
            return 0

    with pytest.raises(WallarooError, match=r"Pipeline 'numbers' cannot frame .* returned 'four'"):
        make_ingress(decoder=Decoder())


def test_a_port_in_use_is_reported_clearly(make_ingress):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(WallarooError) as caught:
            make_ingress(port=port)
    assert str(caught.value) == (
        f"Pipeline 'numbers' cannot listen on 127.0.0.1:{port}: another program already uses that port. Stop "
        f"that program (perhaps this application is already running), or give the pipeline another port."
    )


def test_a_killed_process_is_started_again_and_the_log_continues(make_ingress):
    ingress = make_ingress()
    ingress.send([b"%d" % number for number in range(1000)])
    ingress.wait_for_end(1000)
    killed = ingress.process.pid
    os.kill(killed, signal.SIGKILL)
    assert "was killed by SIGKILL" in ingress.notice("is being restarted")
    assert ingress.client.status()["numbers"]["end"] == 1000
    ingress.send([b"%d" % number for number in range(1000, 2000)])
    ingress.wait_for_end(2000)
    assert ingress.process.pid not in (killed, None)
    assert ingress.messages() == [b"%d" % number for number in range(2000)]


def test_a_kill_in_the_middle_of_traffic_leaves_whole_messages_in_order(make_ingress):
    ingress = make_ingress(segment_bytes=100_000)
    connection = ingress.connect()

    def send():
        with connection:
            try:
                for number in range(1_000_000):
                    connection.sendall(frame(b"%d" % number))
            except OSError:
                return

    thread = threading.Thread(target=send)
    thread.start()
    committed = ingress.wait_for_end(5000)
    os.kill(ingress.process.pid, signal.SIGKILL)
    ingress.notice("is being restarted")
    thread.join()
    end = ingress.client.status()["numbers"]["end"]
    assert end >= committed
    assert ingress.messages() == [b"%d" % number for number in range(end)]


def test_a_process_that_cannot_start_again_is_reported_once_and_tried_until_it_can(make_ingress):
    ingress = make_ingress()
    blocked = ingress.log().with_name("moved")
    ingress.log().rename(blocked)
    ingress.log().write_text("in the way")
    os.kill(ingress.process.pid, signal.SIGKILL)
    assert "File exists" in ingress.notice("cannot start yet")
    ingress.log().unlink()
    blocked.rename(ingress.log())
    ingress.notice("is running again")
    ingress.send([b"x"])
    ingress.wait_for_end(1)


def test_an_interrupt_does_not_reach_the_process(make_ingress):
    ingress = make_ingress()
    pid = ingress.process.pid
    os.kill(pid, signal.SIGINT)
    ingress.send([b"x"])
    ingress.wait_for_end(1)
    assert ingress.process.pid == pid
    assert os.getsid(pid) != os.getsid(0)


def test_stopping_takes_in_what_was_sent(make_ingress):
    ingress = make_ingress()
    with ingress.connect() as first, ingress.connect() as second:
        for number in range(100):
            (first, second)[number % 2].sendall(frame(b"%d" % number))
        pid = ingress.process.pid
        ingress.stop()
    assert sorted(map(int, ingress.messages())) == list(range(100))
    assert ingress.process.pid is None
    assert not psutil.pid_exists(pid)
    assert ingress.notices.empty()


@pytest.mark.parametrize("stands_still", [False, True])
def test_the_process_ends_when_its_parent_dies(tmp_path, stands_still):
    program = textwrap.dedent("""
        import sys, time
        from wallaroo.ingress.config import IngressConfig
        from wallaroo.ingress.process import IngressProcess
        process = IngressProcess(IngressConfig([], sys.argv[1], "token", sys.argv[2]))
        process.start()
        print(process.pid, flush=True)
        time.sleep(1000)
    """)
    command = [sys.executable, "-c", program, str(tmp_path / "c"), str(tmp_path / "s")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        child = psutil.Process(int(parent.stdout.readline()))
        assert child.is_running()
        if stands_still:
            child.suspend()
        parent.kill()
    psutil.wait_procs([child], timeout=60)
    assert not child.is_running()


def make_starting_decoder(note):
    """Return a decoder whose process starts another one, in a session of its own."""

    class Startup:
        def header_length(self):
            return 4

        def payload_length(self, header):
            other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
            Path(note).write_text(str(other.pid))
            return int.from_bytes(header)

        def decode(self, payload):
            return payload

    return Startup


def test_what_user_code_has_started_ends_with_the_process(make_ingress, tmp_path):
    ingress = make_ingress(decoder=make_starting_decoder(str(tmp_path / "note")))
    ingress.send([b"1"])
    ingress.wait_for_end(1)
    other = psutil.Process(int((tmp_path / "note").read_text()))
    assert other.is_running()
    ingress.process.stop()
    psutil.wait_procs([other], timeout=60)
    assert not other.is_running()


def test_a_client_gives_up_on_a_process_that_does_not_return(tmp_path):
    client = IngressClient(str(tmp_path / "nobody"), "token", timeout=0.2)
    with pytest.raises(WallarooError, match=r"does not answer on .*nobody"):
        client.status()
