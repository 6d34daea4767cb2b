"""The control channel: committing, holding senders back, draining."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import resource
import socket
import stat
import struct
import threading
from pathlib import Path

import pytest

from wallaroo.connectors.base import StoppedError
from wallaroo.connectors.tcp.source_connection import READ_BYTES
from wallaroo.engine.delivery.ingress_feedback import ReportedProgress
from wallaroo.ingress.client import IngressClient
from wallaroo.ingress.lanes import Lane
from wallaroo.ingress.log import LogReader
from wallaroo.ingress.log.format import RECORD_SIZE, segment_starts

from .conftest import stays_at


def frame(payload):
    return struct.pack(">I", len(payload)) + payload


def in_background(function, *args):
    """Run a function in a thread; return a function that waits for its result."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function(*args)))
    thread.start()

    def result():
        thread.join()
        return results[0]

    return result


def test_commit_deletes_segments_and_status_shows_it(make_ingress):
    ingress = make_ingress(segment_bytes=100)
    with ingress.connect() as connection:
        for number in range(1, 11):
            connection.sendall(frame(bytes(50)))
            ingress.wait_for_end(number)
        assert ingress.client.status()["numbers"] == {
            "connections": 1,
            "start": 0,
            "end": 10,
            "backlog_bytes": 500,
            "log_bytes": 500 + 10 * 4 + 10 * RECORD_SIZE,
            "total_messages": 10,
            "total_bytes": 500,
        }
        ingress.client.committed(0, {Lane("numbers"): 7, Lane("of an older version"): 5})
        status = ingress.client.status()["numbers"]
    assert (status["start"], status["end"], status["backlog_bytes"]) == (6, 10, 150)
    assert segment_starts(ingress.log()) == [6, 8]


def test_senders_wait_while_too_much_is_unprocessed_and_nothing_is_lost(make_ingress):
    limit = 100_000
    ingress = make_ingress(max_log=limit, segment_bytes=20_000)
    bound = limit + READ_BYTES + 4 * READ_BYTES // 700 + RECORD_SIZE
    messages = [b"%07d" % number * 100 for number in range(20_000)]
    with ingress.connect() as connection:
        sending = in_background(connection.sendall, b"".join(map(frame, messages)))
        assert "has reached its limit of 100 kB (--max-log)" in ingress.notice("have to wait")
        held = ingress.client.status()["numbers"]
        assert limit < held["log_bytes"] <= bound
        # A newcomer is held back as well.
        with ingress.connect() as newcomer:
            newcomer.sendall(frame(b"me too"))
            assert stays_at(ingress.client, "numbers", held["end"], 0.3)
            reader = LogReader(ingress.log())
            found = []
            while len(found) < len(messages) + 1:
                end = ingress.wait_for_end(len(found) + 1)
                found += [payload for _, payloads in reader.read(len(found), end) for payload in payloads]
                assert ingress.log_bytes() <= bound
                ingress.commit(end)
        sending()
    # It was full many times, and has room again for good: each is reported once.
    assert "has room again" in ingress.notices.get(timeout=60)
    assert ingress.notices.empty()
    found.remove(b"me too")
    assert found == messages


def test_a_restart_does_not_forget_what_was_processed(make_ingress):
    """Otherwise all that is still on the disk would count as unprocessed and hold the senders back."""
    ingress = make_ingress(max_log=1000)
    ingress.send([bytes(3000)])
    ingress.wait_for_end(1)
    ingress.commit(1)
    os.kill(ingress.process.pid, 9)
    ingress.notice("is being restarted")
    assert ingress.client.status()["numbers"]["backlog_bytes"] == 0
    ingress.send([b"x"])
    ingress.wait_for_end(2)


def test_blocks_are_synced_on_request_also_after_a_restart(make_ingress):
    ingress = make_ingress()
    ingress.client.tick()
    assert ingress.client.force() == 0  # It was not handed out.
    os.kill(ingress.process.pid, 9)
    progress = ReportedProgress(ingress.client)
    assert progress.force() == 1
    progress.close()
    with pytest.raises(StoppedError):
        progress.force()


def test_a_full_disk_holds_senders_back_and_loses_nothing(make_ingress):
    ingress = make_ingress()
    messages = [b"%07d" % number * 100 for number in range(3000)]
    unlimited = resource.prlimit(ingress.process.pid, resource.RLIMIT_FSIZE)
    with ingress.connect() as connection:
        connection.sendall(frame(messages[0]))
        ingress.wait_for_end(1)
        resource.prlimit(ingress.process.pid, resource.RLIMIT_FSIZE, (1_000_000, unlimited[1]))
        sending = in_background(connection.sendall, b"".join(map(frame, messages[1:])))
        assert "cannot be written: File too large" in ingress.notice("cannot be written")
        assert ingress.client.status()["numbers"]["end"] < 3000
        resource.prlimit(ingress.process.pid, resource.RLIMIT_FSIZE, unlimited)
        ingress.notice("can be written again")
        sending()
        ingress.wait_for_end(3000)
    assert ingress.messages() == messages
    assert ingress.notices.empty()


def test_drain_takes_what_was_sent_and_accepts_no_more(make_ingress):
    ingress = make_ingress()
    connections = [ingress.connect() for _ in range(20)]
    for number, connection in enumerate(connections):
        connection.sendall(frame(b"%d" % number) * 50)
    assert ingress.client.drain() == {"numbers": 1000}
    for connection in connections:
        connection.close()
    with pytest.raises(ConnectionRefusedError):
        ingress.connect()
    assert ingress.client.drain() == {"numbers": 1000}
    assert ingress.client.status()["numbers"]["connections"] == 0


def test_a_drain_with_senders_held_back_takes_what_has_arrived(make_ingress):
    ingress = make_ingress(max_log=10)
    with ingress.connect() as connection:
        connection.sendall(frame(bytes(100)))
        ingress.notice("have to wait")
        connection.sendall(frame(b"second"))
        assert ingress.client.drain() == {"numbers": 2}


@pytest.mark.parametrize(
    "request_line",
    [b'{"op": "drain", "token": "a guess"}', b'{"op": "drain"}', b"[1]", b"what?", b'{"token": "a secret"}'],
)
def test_without_the_token_or_with_invalid_requests_the_control_connection_is_closed(make_ingress, request_line):
    ingress = make_ingress()
    assert stat.S_IMODE(Path(ingress.config.control_path).stat().st_mode) == 0o600
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(ingress.config.control_path)
        stranger.sendall(request_line + b"\n")
        assert stranger.recv(1) == b""
    # Nothing of it was done: senders are still accepted, and what they send is.
    ingress.send([b"x"])
    ingress.wait_for_end(1)


def test_a_client_can_be_sent_to_another_process_and_survives_a_fork(make_ingress):
    ingress = make_ingress()
    ingress.send([b"x"])
    ingress.wait_for_end(1)
    copy = pickle.loads(pickle.dumps(ingress.client))
    assert isinstance(copy, IngressClient)
    with copy:
        assert copy.status()["numbers"]["end"] == 1
    with multiprocessing.get_context("fork").Pool(2) as pool:
        results = [pool.apply_async(ingress.client.status) for _ in range(20)]
        assert all(result.get()["numbers"]["end"] == 1 for result in results)
        assert ingress.client.status()["numbers"]["end"] == 1
        pool.close()
        pool.join()
