"""A run that is stopped commits what is in progress, also during a restart of the query: real parts, but for Spark."""

import json
import os
import signal
import threading
import time
from contextlib import closing
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest
from tests.engine.delivery.recording_progress import RecordingProgress
from tests.ingress.conftest import TOKEN, Ingress

from wallaroo.engine import run
from wallaroo.engine.delivery.collector import Collector, Expected
from wallaroo.engine.delivery.egress import Egress
from wallaroo.engine.delivery.ingress_feedback import ReportedProgress
from wallaroo.engine.directory.commit import Commits
from wallaroo.engine.directory.home import Home
from wallaroo.engine.failure_kinds import Failure, Kind
from wallaroo.engine.restart_policy import RestartPolicy
from wallaroo.engine.run import Running, Stop
from wallaroo.engine.transport.shuffle_format import BLOCK, Chunk, pack_share
from wallaroo.engine.transport.task_channel import TaskChannel
from wallaroo.errors import WallarooError
from wallaroo.ingress.block_sequence import unpack_block
from wallaroo.ingress.client import IngressClient
from wallaroo.ingress.lanes import Lane
from wallaroo.ingress.log.format import LogCorruptError
from wallaroo.ingress.sequencer import FRAME
from wallaroo.internal_sockets import dial


@pytest.fixture
def ingress():
    # The path of a Unix socket must be short.
    with TemporaryDirectory(prefix="wal") as folder:
        made = Ingress(folder).start()
        yield made
        made.stop()


@pytest.fixture
def parts(make, tmp_path):
    """Yield the commits, the hand-ins and the egress of an application without sinks."""
    home = Home(tmp_path / "home")
    home.open()
    plan = make.plan(make.pipeline("numbers", encoders=()))
    plan.sources = ["numbers"]
    commits = Commits(tmp_path / "commit", tmp_path / "states")
    with closing(home), closing(Collector(str(tmp_path / "socket"), "token", commits)) as collector:
        egress = Egress(plan, home, collector, commits, RecordingProgress([]), threading.Event(), print)
        with closing(egress):
            egress.start()
            yield SimpleNamespace(home=home, commits=commits, collector=collector, egress=egress)


class Life:
    """An attempt of the query, of one task that has no states."""

    def __init__(self, ingress, parts, attempt):
        start = parts.egress.begin(attempt, Expected(1, 1, lambda _: None))
        self.driver = TaskChannel(parts.collector.address, "token", attempt, -1, 0)
        self.ends = {}
        self._socket = dial(ingress.config.control_path)
        self._socket.settimeout(10)
        self._frames = self._socket.makefile("rb")
        request = {"op": "blocks", "token": TOKEN, "attempt": attempt, "reader": 0, "readers": 1, "start": start}
        self._socket.sendall(json.dumps(request).encode() + b"\n")

    def next(self):
        """Return the number of the next block, and the block, None where the epoch ends before it."""
        number, length, _ = FRAME.unpack(self._frames.read(FRAME.size))
        return number, None if length < 0 else self._frames.read(length)

    def is_closed(self):
        """Wait until the ingress closes the connection."""
        return self._frames.read() == b""

    def compute_next(self):
        number, block = self.next()
        if block is None:
            self.driver.saved(number, self.ends, {})
        else:
            self.ends.update(unpack_block(block).ends)
            self.driver.output(number, pack_share([Chunk(BLOCK, 0, 0, block)]))

    def close(self):
        self._frames.close()
        self._socket.close()
        self.driver.close()


def test_a_stop_leaves_its_work_to_the_next_run_where_the_ingress_does_not_answer(parts, tmp_path):
    notices = []
    nobody = IngressClient(str(tmp_path / "nobody"), TOKEN, timeout=0.1)
    running = Running(None, (parts.commits, nobody, parts.egress, None, None), None, notices.append)
    running.finish(Stop())
    running.raise_failure()
    (notice,) = notices
    assert notice.startswith("What was in progress is left to the next run: ")


def test_a_stop_ends_the_epoch_of_the_next_attempt_where_the_last_one_was_to_end(ingress, parts, monkeypatch):
    monkeypatch.setattr(run, "_RETRY_SECONDS", 0.05)
    spark = SimpleNamespace(is_active=lambda: True)
    running = Running(None, (parts.commits, ingress.client, parts.egress, None, spark), None, print)
    with closing(Life(ingress, parts, "old")) as old:
        ingress.send([b"one"])
        assert old.next()[0] == 0
        finish = threading.Thread(target=running.finish, args=[Stop()], daemon=True)
        finish.start()
        # It does nothing more, but its connection is still open.
        assert old.next() == (1, None)
        with closing(Life(ingress, parts, "new")) as new:
            new.compute_next()
            new.compute_next()
            finish.join()
    assert (parts.commits.block, parts.commits.ends) == (1, {Lane("numbers"): 1})


def test_a_task_that_has_changed_much_has_the_ingress_end_the_epoch(ingress, parts):
    with closing(ReportedProgress(ingress.client)) as progress, closing(Life(ingress, parts, "one")) as life:
        parts.collector.on_enough_changed = progress.end_epoch_of
        ingress.send([b"one"])
        life.compute_next()
        life.driver.enough_changed(0)
        assert life.next() == (1, None)
        # Another task says so later than the first, when its epoch has ended.
        ingress.send([b"two"])
        assert life.next()[0] == 1
        assert ingress.client.end_epoch(of=0) == 1


def test_a_sequence_damaged_during_a_run_ends_it_with_the_reason(ingress, parts):
    lost = Failure(Kind.INGRESS, "The process that accepts connections has closed the connection")
    spark = SimpleNamespace(is_active=lambda: False, failure=lambda: lost, learned=False)
    deaths = SimpleNamespace(fatal_calls=dict)
    restarts = RestartPolicy(parts.home, [], threading.Event(), print)
    running = Running(parts.home, (parts.commits, ingress.client, parts.egress, deaths, spark), restarts, print)
    with closing(Life(ingress, parts, "one")) as life:
        ingress.send([b"one"])
        assert life.next()[0] == 0
    (segment,) = (ingress.directory / "sequence").glob("*.sequence")
    segment.write_bytes(segment.read_bytes()[:-1] + b"?")
    with closing(Life(ingress, parts, "two")) as life:
        # It gets nothing, like any further one, and senders do not notice.
        assert life.is_closed()
    ingress.send([b"two"])
    assert ingress.wait_for_end(2) == 2
    ingress.client.delivered(1)
    assert ingress.notices.empty()
    with pytest.raises(WallarooError) as caught:
        running.keep_running()
    assert str(caught.value).startswith(
        f"The application cannot continue: Block 0 of the sequence in {ingress.directory / 'sequence'} is damaged or "
        "missing. Restore the sequence from a copy, or continue with --skip-damaged:"
    )
    assert caught.value.exit_code == LogCorruptError.exit_code


def test_a_run_leaves_what_all_its_parts_have_counted(ingress, parts):
    running = Running(parts.home, (parts.commits, ingress.client, parts.egress, None, None), None, print)
    with closing(Life(ingress, parts, "one")) as life:
        ingress.send([b"one", b"three"])
        while life.ends.get(Lane(0), 0) < 2:
            life.compute_next()
        while parts.egress.metrics.messages_in["numbers"] < 2:
            time.sleep(0.005)
    running.write_counts()
    found = json.loads(parts.home.counts.read_text())
    assert found["sources"]["numbers"].items() >= {"messages": 2, "accepted_messages": 2, "accepted_bytes": 8}.items()
    assert found["delays"]["sum_seconds"] > 0


def test_a_frozen_ingress_does_not_delay_the_end_of_a_run(ingress, parts, monkeypatch):
    monkeypatch.setattr(run, "_STATUS_SECONDS", 0.1)
    running = Running(parts.home, (parts.commits, ingress.client, parts.egress, None, None), None, print)
    os.kill(ingress.process.pid, signal.SIGSTOP)
    try:
        assert running.snapshot()["sources"] == {}
    finally:
        os.kill(ingress.process.pid, signal.SIGCONT)
