"""Sinks that take several blocks before they have delivered the first."""

import threading
from array import array
from contextlib import closing
from dataclasses import replace

import pytest
from tests.engine.delivery.recording_progress import RecordingProgress

import wallaroo
from wallaroo.connectors import registry
from wallaroo.connectors.base import SinkKind
from wallaroo.engine.delivery.collector import Collector, Expected
from wallaroo.engine.delivery.egress import Egress
from wallaroo.engine.delivery.ledger import Ledger
from wallaroo.engine.directory.commit import Commits
from wallaroo.engine.directory.home import Home
from wallaroo.engine.transport.shuffle_format import BLOCK, Chunk, pack_share
from wallaroo.engine.transport.task_channel import TaskChannel
from wallaroo.ingress.block_sequence import Range, SequencedBlock
from wallaroo.ingress.lanes import Lane

ONE, OTHER = 0, 1
"""The routes of the two sinks."""


class Bay:
    """A config: blocks are unloaded when the test says so."""

    encoder = wallaroo.encoder(str)

    def __init__(self, name):
        self.name = name
        self.taken = []
        self.on_block = lambda block: None


class BayConnection:
    def __init__(self, config):
        self.name = f"bay {config.name}"
        self._config = config

    def connect(self):
        """Do nothing: there is nothing to connect to."""

    def deliver(self, block):
        self._config.taken.append(block)
        self._config.on_block(block)

    def close(self):
        """Do nothing: there is nothing to close."""


class BayKind(SinkKind):
    config_class = Bay

    def mistakes(self, config):
        return iter(())

    def shown(self, config):
        return ("a bay",)

    def connection(self, config, context):
        return BayConnection(config)


class Harbour:
    """An egress with two such sinks, fed through the line of a task."""

    def __init__(self, make, folder):
        self.bays = [Bay("one"), Bay("other")]
        self.told, self.notices, self._lines = [], [], []
        self.home = Home(folder)
        plan = make.plan(replace(make.pipeline("p"), sinks=tuple(self.bays)))
        plan.sources = ["p"]
        self.commits = Commits(folder / "commit", folder / "states")
        self.collector = Collector(str(folder / "socket"), "token", self.commits)
        self.egress = Egress(
            plan,
            self.home,
            self.collector,
            self.commits,
            RecordingProgress(self.told),
            threading.Event(),
            self.notices.append,
        )
        self.egress.start()

    def begin(self, attempt):
        start = self.egress.begin(attempt, Expected(1, 1, lambda _: (0, 0)))
        self._lines.append(TaskChannel(self.collector.address, "token", attempt, 0, 0))
        self.line = self._lines[-1]
        return start

    def put_out(self, number, *routes):
        """Hand in a block that has an output for the sinks of these routes, for each time that they are named."""
        block = SequencedBlock(number, 0, 1, (Range(0, number, number + 1),))
        outputs = [Chunk(route, part, 1, b"%d " % number, array("I", [2])) for part, route in enumerate(routes)]
        self.line.output(number, pack_share([Chunk(BLOCK, 0, 0, block.pack()), *outputs]))

    def taken(self, route):
        return [block.number for block in self.bays[route].taken]

    @property
    def delivered(self):
        return max((event[1] for event in self.told if event[0] == "delivered"), default=0)

    def recorded(self, route, block):
        return self.egress._ledger.has(f"bay {self.bays[route].name}", block)

    def close(self):
        for line in self._lines:
            line.close()
        self.egress.close()
        self.collector.close()


@pytest.fixture
def harbour(make, tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "SINKS", [*registry.SINKS, BayKind()])
    with closing(Harbour(make, tmp_path)) as made:
        yield made


def wait_until(condition):
    ready = threading.Event()
    for _ in range(2000):
        if condition():
            return
        ready.wait(0.01)
    raise AssertionError("it did not happen")


def test_a_block_counts_when_all_sinks_have_delivered_it_and_all_before_it(harbour):
    harbour.begin("one")
    harbour.put_out(0, ONE, OTHER)
    harbour.put_out(1, OTHER)
    harbour.put_out(2, ONE)
    harbour.put_out(3)
    wait_until(lambda: harbour.taken(ONE) == [0, 2] and harbour.taken(OTHER) == [0, 1])
    harbour.bays[OTHER].taken[0].delivered()
    harbour.bays[OTHER].taken[1].delivered()
    wait_until(lambda: harbour.recorded(OTHER, 1))
    assert not harbour.recorded(ONE, 0)
    assert (harbour.delivered, harbour.egress.metrics.blocks) == (0, 0)
    harbour.bays[ONE].taken[0].delivered()
    wait_until(lambda: harbour.delivered == 2)
    assert (harbour.egress.metrics.blocks, harbour.egress.metrics.messages_out) == (2, 3)
    harbour.bays[ONE].taken[1].delivered()
    wait_until(lambda: harbour.delivered == 4)
    assert harbour.egress.metrics.blocks == 4


def test_what_a_sink_has_delivered_is_recorded_while_another_takes_its_time(harbour):
    has_room = threading.Event()
    harbour.bays[ONE].on_block = lambda block: block.delivered()
    harbour.bays[OTHER].on_block = lambda _: has_room.wait()
    harbour.begin("one")
    harbour.put_out(0, ONE, OTHER)
    wait_until(lambda: harbour.recorded(ONE, 0))
    assert not harbour.recorded(OTHER, 0)
    has_room.set()


def test_the_progress_that_a_sink_reports_from_its_own_thread_is_recorded_after_the_blocks_before_it(
    harbour, monkeypatch
):
    threads, written = set(), []

    def write(ledger, line):
        threads.add(threading.current_thread().name)
        written.append(line)
        write_to_file(ledger, line)

    write_to_file = Ledger._write
    monkeypatch.setattr(Ledger, "_write", write)
    harbour.begin("one")
    for number in range(3):
        harbour.put_out(number, ONE, ONE)
    wait_until(lambda: harbour.taken(ONE) == [0, 1, 2])
    for block in harbour.bays[ONE].taken:
        block.acknowledged(2)
        block.delivered()
    wait_until(lambda: harbour.recorded(ONE, 2))
    assert [line.split("\t")[0] for line in written] == ["0", "0", "1", "1", "2", "2"]
    assert [len(line.split("\t")) for line in written] == [4, 2, 4, 2, 4, 2]
    assert len(threads) == 1
    assert threading.current_thread().name not in threads


def test_an_epoch_waits_for_its_blocks_and_holds_no_other_up(harbour):
    harbour.begin("one")
    harbour.put_out(0, ONE)
    harbour.put_out(1, ONE)
    harbour.line.saved(1, {Lane(0): 1}, {})
    harbour.put_out(2, ONE)
    wait_until(lambda: harbour.taken(ONE) == [0, 1, 2])
    assert harbour.commits.block == 0
    harbour.bays[ONE].taken[0].delivered()
    wait_until(lambda: harbour.commits.block == 1)
    assert harbour.told == [("delivered", 1), ("committed", 1, {Lane("p"): 1})]


def test_what_a_sink_has_taken_is_not_given_to_it_again_after_a_failure(harbour):
    harbour.begin("one")
    harbour.put_out(0, ONE)
    harbour.put_out(1, ONE)
    wait_until(lambda: harbour.taken(ONE) == [0, 1])
    assert harbour.begin("two") == 0
    harbour.put_out(0, ONE)
    harbour.put_out(1, ONE)
    harbour.put_out(2, ONE)
    harbour.line.saved(2, {Lane(0): 2}, {})
    wait_until(lambda: harbour.taken(ONE) == [0, 1, 2])
    assert (harbour.delivered, harbour.commits.block) == (0, 0)
    for block in harbour.bays[ONE].taken:
        block.delivered()
    wait_until(lambda: harbour.commits.block == 2 and harbour.delivered == 3)
    assert (harbour.egress.metrics.blocks, harbour.egress.metrics.messages_out) == (3, 3)


def test_an_epoch_of_an_attempt_that_has_failed_is_not_committed_when_its_blocks_are_delivered(harbour):
    harbour.begin("one")
    harbour.put_out(0, ONE)
    harbour.line.saved(1, {Lane(0): 1}, {})
    harbour.put_out(1)
    wait_until(lambda: harbour.egress._next == 2)
    harbour.begin("two")
    harbour.bays[ONE].taken[0].delivered()
    harbour.put_out(0, ONE)
    harbour.put_out(1)
    wait_until(lambda: harbour.delivered == 2)
    assert harbour.commits.block == 0
    assert harbour.taken(ONE) == [0]


def test_the_error_of_a_sink_ends_the_delivery_even_if_no_further_block_comes(harbour):
    harbour.begin("one")
    harbour.put_out(0, ONE)
    harbour.put_out(1, ONE)
    wait_until(lambda: harbour.taken(ONE) == [0, 1])
    harbour.bays[ONE].taken[0].delivered()
    error = RuntimeError("the bay is closed")
    harbour.bays[ONE].taken[1].failed(error)
    wait_until(lambda: harbour.egress.failure is error)
    assert harbour.recorded(ONE, 0)
    assert not harbour.recorded(ONE, 1)


def test_what_one_sink_has_delivered_is_recorded_though_another_has_stopped(harbour):
    def deliver_while_the_other_stops(block):
        harbour.bays[ONE].taken[0].failed(RuntimeError("the bay is closed"))
        block.delivered()

    harbour.bays[OTHER].on_block = deliver_while_the_other_stops
    harbour.begin("one")
    harbour.put_out(0, ONE)
    harbour.put_out(1, OTHER)
    wait_until(lambda: harbour.egress.failure is not None)
    assert harbour.recorded(OTHER, 1)
    assert not harbour.recorded(ONE, 0)


def test_what_could_not_be_recorded_is_recorded_later(harbour, monkeypatch):
    harbour.begin("one")
    harbour.put_out(0, ONE)
    wait_until(lambda: harbour.taken(ONE) == [0])

    def refuse(*_):
        raise OSError("the disk is full")

    with monkeypatch.context() as full:
        full.setattr(harbour.egress._ledger, "record", refuse)
        harbour.bays[ONE].taken[0].delivered()
        wait_until(lambda: str(harbour.egress.held_up) == "the disk is full")
        assert harbour.delivered == 0
    wait_until(lambda: harbour.delivered == 1)
    assert harbour.recorded(ONE, 0)


def test_what_is_delivered_while_the_sinks_are_closed_is_recorded(harbour, monkeypatch):
    harbour.begin("one")
    harbour.put_out(0, ONE)
    harbour.put_out(1, ONE)
    wait_until(lambda: harbour.taken(ONE) == [0, 1])
    [name, _] = harbour.egress._connections
    monkeypatch.setattr(harbour.egress._connections[name], "close", harbour.bays[ONE].taken[0].delivered)
    harbour.egress.close()
    harbour.egress.close = lambda: None
    assert Ledger(harbour.home.ledger)._last == {name: 0}
