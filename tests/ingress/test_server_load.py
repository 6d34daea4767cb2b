"""Many connections, slow ones, too fast ones, too many: bounded and reported, and nothing is lost."""

from __future__ import annotations

import os
import random
import re
import resource
import signal
import socket
import struct
import threading
from pathlib import Path

import psutil
import pytest
from tests.processes import run_python

from wallaroo.connectors.tcp.source import REPORTED_IN_FULL
from wallaroo.connectors.tcp.source_connection import READ_BYTES
from wallaroo.ingress.limits import Limits

from .conftest import is_closed, stays_at

THOUSAND = 1000


def frame(payload):
    return struct.pack(">I", len(payload)) + payload


@pytest.fixture(autouse=True)
def many_files():
    """Let this process have enough files open for its side of the connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(max(soft, 4 * THOUSAND), hard) if hard != resource.RLIM_INFINITY else 4 * THOUSAND
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def connections():
    """Return a list of connections that are closed when the test is over."""
    opened = []
    yield opened
    for connection in opened:
        connection.close()


def test_a_thousand_connections_at_once(make_ingress, connections):
    """All are open at the same time, and each sends its messages in pieces between those of the others."""
    ingress = make_ingress()
    connections += [ingress.connect() for _ in range(THOUSAND)]
    sent = {each: [b"%d:%d" % (each, number) for number in range(5)] for each in range(THOUSAND)}
    waiting = {each: b"".join(map(frame, sent[each])) for each in sent}
    chance = random.Random(7)
    while waiting:
        each = chance.choice(list(waiting))
        size = chance.choice([1, 3, 10, 100])
        connections[each].sendall(waiting[each][:size])
        waiting[each] = waiting[each][size:]
        if not waiting[each]:
            del waiting[each]
    ingress.wait_for_end(5 * THOUSAND)
    found = {each: [] for each in sent}
    for message in ingress.messages():
        found[int(message.partition(b":")[0])].append(message)
    assert found == sent
    assert ingress.client.status()["numbers"]["connections"] == THOUSAND


def test_slow_senders_cost_what_they_have_sent_and_nothing_more(make_ingress, connections):
    """A thousand senders begin a message of 60 MB each and then send a byte now and then: 60 GB that never come."""
    ingress = make_ingress()
    process = psutil.Process(ingress.process.pid)
    ingress.send([b"first"])
    ingress.wait_for_end(1)
    before = process.memory_info().rss
    connections += [ingress.connect() for _ in range(THOUSAND)]
    for connection in connections:
        connection.sendall(struct.pack(">I", 60_000_000))
    for _ in range(3):
        for connection in connections:
            connection.sendall(b"x")
        # Others are not held up by them.
        ingress.send([b"in between"])
    ingress.wait_for_end(4)
    assert process.memory_info().rss - before < 64 << 20
    assert ingress.client.status()["numbers"]["connections"] == THOUSAND
    assert ingress.messages() == [b"first"] + [b"in between"] * 3


def test_a_message_that_arrives_byte_by_byte(make_ingress):
    ingress = make_ingress()
    with ingress.connect() as slow, ingress.connect() as other:
        slow.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for number, byte in enumerate(frame(b"slow")):
            slow.sendall(bytes([byte]))
            # What others send meanwhile is there before the slow message is complete.
            other.sendall(frame(b"%d" % number))
            ingress.wait_for_end(number + 1)
        ingress.wait_for_end(9)
    assert sorted(ingress.messages()[-2:]) == [b"7", b"slow"]
    assert ingress.messages()[:7] == [b"%d" % number for number in range(7)]


def test_no_connection_starves_the_others(make_ingress, connections):
    """Three senders keep sending far more than is read at once; fifty others have one message each.

    The process is stopped while all of it arrives, so that it finds all of it at the same time.
    """
    ingress = make_ingress()
    floods = [ingress.connect() for _ in range(3)]
    quiet = [ingress.connect() for _ in range(50)]
    connections += floods + quiet
    for connection in connections:
        connection.sendall(frame(b"hello"))
    ingress.wait_for_end(len(connections))
    flood = frame(b"flood" * 200) * 100
    at_once = len(floods) * READ_BYTES
    os.kill(ingress.process.pid, signal.SIGSTOP)
    try:
        left = [filled(connection, flood) for connection in floods]
        assert sum(sent for sent, _ in left) > 3 * at_once
        for number, connection in enumerate(quiet):
            connection.sendall(frame(b"quiet %d" % number))
    finally:
        os.kill(ingress.process.pid, signal.SIGCONT)
    enough = threading.Event()

    def go_on(connection, rest):
        connection.sendall(rest)
        while not enough.is_set():
            connection.sendall(flood)

    threads = [threading.Thread(target=go_on, args=(floods[each], left[each][1])) for each in range(3)]
    for thread in threads:
        thread.start()
    waiting = {b"quiet %d" % number for number in range(len(quiet))}
    before = 0
    read = len(connections)
    try:
        while waiting:
            end = ingress.wait_for_end(read + 1)
            for message in ingress.messages(start=read, end=end):
                before += len(message) if waiting else 0
                waiting.discard(message)
            ingress.commit(end)
            read = end
    finally:
        enough.set()
        for thread in threads:
            thread.join()
    assert before < 2 * at_once


def filled(connection, flood):
    """Send until nothing more fits on the way; return how much that was, and the rest of the last piece."""
    connection.setblocking(False)
    sent = 0
    while True:
        piece = flood
        while piece:
            try:
                taken = connection.send(piece)
            except BlockingIOError:
                connection.setblocking(True)
                return sent, piece
            sent += taken
            piece = piece[taken:]


def test_a_connection_too_many_is_closed_and_the_others_continue(make_ingress, connections):
    ingress = make_ingress(max_connections=3, names=("numbers", "others"))
    connections += [ingress.connect() for _ in range(3)]
    for connection in connections:
        connection.sendall(frame(b"mine"))
    ingress.wait_for_end(3)
    with ingress.connect() as fourth:
        peer = "{}:{}".format(*fourth.getsockname())
        assert is_closed(fourth)
    assert ingress.notice("was closed") == (
        f"The connection from {peer} to 'numbers' was closed: 3 connections open already, and more are not accepted "
        f"(--max-connections)."
    )
    ingress.send([b"another source has its own"], "others")
    ingress.wait_for_end(1, "others")
    connections[0].sendall(frame(b"still here"))
    connections.pop().close()
    end = ingress.wait_for_end(4)
    while ingress.client.status()["numbers"]["connections"] == 3:
        pass
    ingress.send([b"in its place"])
    ingress.wait_for_end(end + 1)
    assert ingress.messages() == [b"mine"] * 3 + [b"still here", b"in its place"]
    assert ingress.notices.empty()


def test_many_bad_connections_are_summed_up(make_ingress):
    """Each is closed for a reason of its own, the first few in full and the others in one line now and then."""
    ingress = make_ingress()
    number = 60
    with ingress.connect() as good:
        for each in range(number):
            with ingress.connect() as bad:
                if each % 2:
                    bad.sendall(frame(b"ok") + b"\xff" * 4)
                else:
                    bad.sendall(frame(b"ok") + b"\0\0\0\5ab")
                    bad.shutdown(socket.SHUT_WR)
                assert is_closed(bad)
        good.sendall(frame(b"goes on"))
        ingress.wait_for_end(number + 1)
    ingress.stop()
    told = list(ingress.notices.queue)
    assert ["'numbers' was closed" in text for text in told[:REPORTED_IN_FULL]] == [True] * REPORTED_IN_FULL
    summaries = " ".join(told[REPORTED_IN_FULL:])
    assert "was closed" not in summaries

    def in_all(pattern):
        return sum(map(int, re.findall(pattern, summaries)))

    assert in_all(r"And (\d+) more connections to 'numbers' were closed: ") == number - REPORTED_IN_FULL
    assert in_all(r"(\d+) sent what cannot be framed") == number // 2 - REPORTED_IN_FULL // 2
    assert in_all(r"(\d+) inside a message") == number // 2 - (REPORTED_IN_FULL - REPORTED_IN_FULL // 2)
    assert "The last one: 127.0.0.1:" in summaries
    assert ingress.messages() == [b"ok"] * number + [b"goes on"]


def test_without_free_files_new_connections_wait_and_open_ones_continue(make_ingress):
    ingress = make_ingress()
    pid = ingress.process.pid
    with ingress.connect() as first:
        first.sendall(frame(b"one"))
        ingress.wait_for_end(1)
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        in_use = max(int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir()) + 1
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (in_use, limits[1]))
        with ingress.connect() as second:
            second.sendall(frame(b"three"))
            assert "cannot be accepted for now: Too many open files" in ingress.notice("New connections")
            first.sendall(frame(b"two"))
            ingress.wait_for_end(2)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
            ingress.wait_for_end(3)
    ingress.notice("can be accepted again")
    assert ingress.messages() == [b"one", b"two", b"three"]


WITH_FEW_FILES = """
import resource, sys
from wallaroo.ingress.config import IngressConfig
from wallaroo.ingress.limits import Limits
from wallaroo.ingress.process import IngressProcess
resource.setrlimit(resource.RLIMIT_NOFILE, (300, int(sys.argv[3])))
limits = Limits(max_connections=int(sys.argv[4]), chosen=frozenset(sys.argv[5:]))
process = IngressProcess(IngressConfig([], sys.argv[1], "token", sys.argv[2], limits=limits), print)
process.start()
process.stop()
"""


@pytest.mark.parametrize(
    ("files", "wanted", "chosen", "told"),
    [
        (700, 10_000, (), "A source accepts 364 connections at once instead of 10,000: this process may have 700 "),
        (2000, 3000, ("max_connections",), "A source accepts 1,664 connections at once instead of 3,000: this "),
        # More than most applications ever have.
        (2000, 3000, (), ""),
        (2000, 1000, ("max_connections",), ""),
    ],
)
def test_fewer_connections_where_fewer_files_may_be_open(tmp_path, files, wanted, chosen, told):
    said = run_python("-c", WITH_FEW_FILES, tmp_path / "c", tmp_path / "s", files, wanted, *chosen).stdout
    assert said.startswith(told)
    assert said.endswith("files open. Raise that limit (ulimit -n) for more.\n" if told else "")
    assert said.count("\n") == bool(told)


def test_the_message_at_the_limit_says_which_limit_it_is():
    assert (
        "this process may have 700 files open: raise that with ulimit -n"
        in Limits(open_files=700).why_no_more_connections
    )


def test_a_log_that_is_over_its_limit_at_the_start_is_reported_and_holds_senders_back(make_ingress):
    ingress = make_ingress()
    ingress.send([bytes(500)] * 100)
    ingress.wait_for_end(100)
    ingress.stop()
    again = make_ingress(max_log=10_000)
    assert "reached its limit of 10 kB" in again.notice("have to wait")
    with again.connect() as connection:
        connection.sendall(frame(b"waits"))
        assert stays_at(again.client, "numbers", 100, 0.3)
        again.commit(100)
        again.wait_for_end(101)
    again.commit(101)
    again.notice("has room again")


def test_tiny_messages_cannot_fill_the_disk_beyond_the_limit(make_ingress):
    """Each comes alone and weighs many times more on the disk than in the stream."""
    limit = 50_000
    ingress = make_ingress(max_log=limit, segment_bytes=10_000)
    sent = 0
    with ingress.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while ingress.notices.empty():
            connection.sendall(frame(b""))
            sent += 1
            if sent % 100 == 0:
                # A sender that is far ahead would have its messages read, and written, many at a time.
                ingress.client.status()
        assert "have to wait" in ingress.notice("numbers")
        assert limit < ingress.log_bytes() < limit + 10_000
        end = 0
        while end < sent:
            end = ingress.wait_for_end(end + 1)
            ingress.commit(end)
    assert ingress.log_bytes() < limit + 10_000
