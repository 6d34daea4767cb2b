"""`wallaroo send` and a real source: what it reports as sent is in the log."""

import os
import signal
import subprocess

import pytest
from tests.processes import PATIENCE, WALLAROO

from .conftest import frame


@pytest.fixture
def send():
    """Start `wallaroo send` with an input; whatever still runs at the end is stopped."""
    started = []

    def start(ingress, content, *options):
        address = "{}:{}".format(*ingress.addresses["numbers"])
        process = subprocess.Popen(
            [*WALLAROO, "send", address, *options], stdin=subprocess.PIPE, stderr=subprocess.PIPE
        )
        started.append(process)
        process.stdin.write(content)
        process.stdin.close()
        process.stdin = None
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def finished(process, code):
    _, report = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, report
    return report.decode()


def test_messages_reported_as_sent_were_accepted(make_ingress, send):
    ingress = make_ingress()
    lines = [b"%d" % number for number in range(10_000)]
    report = finished(send(ingress, b"\n".join(lines)), 0)
    assert report.startswith("sent 10,000 messages ")
    assert report.endswith("; all confirmed\n")
    assert ingress.messages() == lines


def test_messages_that_were_not_accepted_are_not_reported_as_sent(make_ingress, send):
    ingress = make_ingress(max_message_size=10)
    report = finished(send(ingress, b"fine\n" + b"too long for this source\n"), 8)
    assert "2 messages (36 bytes) had been handed over; none of them is confirmed" in report
    report = finished(send(ingress, frame(b"whole") + frame(b"half")[:-1], "--framing", "none"), 8)
    assert "none of them is confirmed" in report
    assert ingress.messages() == [b"fine", b"whole"]


def test_a_source_that_holds_its_senders_back_is_waited_for(make_ingress, send):
    ingress = make_ingress(max_log=1 << 16)
    ingress.send([b"x" * 1000] * 100)
    ingress.notice("has reached its limit")
    end = ingress.wait_for_end(1)
    process = send(ingress, b"hello\n")
    assert b"to confirm 1 message" in process.stderr.readline()
    while end < 100:
        ingress.commit(end)
        end = ingress.wait_for_end(end + 1)
    ingress.commit(end)
    assert finished(process, 0).endswith("; all confirmed\n")
    assert ingress.messages(start=end) == [b"hello"]


def test_a_source_that_is_killed_confirms_nothing(make_ingress, send):
    ingress = make_ingress(max_log=1 << 16)
    ingress.send([b"x" * 1000] * 100)
    ingress.notice("has reached its limit")
    process = send(ingress, b"hello\n")
    assert b"to confirm 1 message" in process.stderr.readline()
    os.kill(ingress.process.pid, signal.SIGKILL)
    assert "1 message (9 bytes) had been handed over; none of them is confirmed" in finished(process, 8)
