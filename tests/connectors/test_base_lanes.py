"""A made-up source with several lanes, each with an order of its own, in the real ingress and worker."""

import asyncio
import shutil
import threading
from collections import Counter, defaultdict

import pytest

import wallaroo
from wallaroo.connectors import registry
from wallaroo.connectors.base import ReplayableKind
from wallaroo.connectors.polling_intake import PollingIntake
from wallaroo.engine.stages.crash_guard import CallGuard
from wallaroo.ingress.block_sequence import Range, SequencedBlock
from wallaroo.ingress.lanes import Lane

from ..ingress.conftest import until  # noqa: TID252 - tests are not installed
from .shore import Shelf, ShelfKind, Shore

AT_ONCE = 10
BOAT_BYTES = 84
BEGIN = 1000
"""The first boat on the river number n has the number n times this."""


@wallaroo.decoder
def decode(bs):
    text = bs.decode()
    if "sinking" in text:
        raise ValueError(text)
    return text


class Rivers:
    """A config: boats come down rivers, which are lanes, and have numbers on each of them."""

    decoder = decode

    def __init__(self, *reached):
        self.reached = {river: BEGIN * river + number for river, number in enumerate(reached)}
        self.known = {}
        """What the intake has found when it was started: the ends of the lanes, and the committed positions."""
        self.sinking = ()


class RiverIntake(PollingIntake):
    def __init__(self, config, ranges):
        super().__init__()
        self._config = config
        self._ranges = ranges

    async def run(self):
        ranges = self._ranges
        self._config.known = {lane: (ranges.end_of(lane), ranges.committed_of(lane)) for lane in ranges.lanes}
        while True:
            for river, reached in dict(self._config.reached).items():
                first = ranges.end_of(river)
                first = BEGIN * river if first is None else first
                end = min(first + AT_ONCE, reached)
                if first < end and not ranges.held_back:
                    ranges.announced(first, end, BOAT_BYTES * (end - first), river)
            await asyncio.sleep(0)


class RiverReader:
    def __init__(self, sinking):
        self._sinking = sinking

    def read(self, first, end, lane=0):
        for number in range(first, end, 3):
            yield number, [self._boat(lane, each) for each in range(number, min(number + 3, end))]

    def _boat(self, river, number):
        return f"{'sinking ' if (river, number) in self._sinking else ''}{river} {number};".encode()


class RiverKind(ReplayableKind):
    name = "rivers"
    config_class = Rivers
    nature = "watches rivers"
    has_lanes = True

    def mistakes(self, config):
        return iter(())

    def shown(self, config):
        return ("rivers",)

    def intake(self, config, place, ranges, context):
        return RiverIntake(config, ranges)

    def reader(self, config, place, log):
        return RiverReader(config.sinking)


@pytest.fixture(autouse=True)
def rivers(monkeypatch):
    monkeypatch.setattr(registry, "SOURCES", [*registry.SOURCES, RiverKind()])
    monkeypatch.setattr(registry, "SINKS", [*registry.SINKS, ShelfKind()])


def boats_in(outputs):
    """Return the numbers of the boats on each river, in the order in which they came out."""
    found = defaultdict(list)
    for number in sorted(outputs):
        for boat in outputs[number].decode().split(";")[:-1]:
            river, number_of_boat = map(int, boat.split())
            found[river].append(number_of_boat)
    return dict(found)


def boats(reached, first=None):
    """Return the numbers of all boats on each river, up to the ones reached, from `first` on."""
    found = {river: list(range((first or {}).get(river, BEGIN * river), end)) for river, end in reached.items()}
    return {river: numbers for river, numbers in found.items() if numbers}


def all_boats(shore, source, but=()):
    async def reach(server):
        await shore.reach(server, {river: end for river, end in source.reached.items() if river not in but})

    return reach


def test_messages_are_in_order_within_each_lane_also_after_a_restart(tmp_path):
    source = Rivers(250, 90, 170)
    shore = Shore(tmp_path, source)
    first = shore.run(all_boats(shore, source))
    assert boats_in(first) == boats(source.reached)
    assert source.known == {}
    earlier = dict(source.reached)
    source.reached = {0: 300, 1: earlier[1], 2: BEGIN * 2 + 200}
    # From the beginning, as after a crash without a commit: the same blocks have the same messages.
    second = shore.run(all_boats(shore, source))
    assert boats_in(second) == boats(source.reached)
    assert {number: second[number] for number in first} == first
    assert source.known == {river: (end, None) for river, end in earlier.items()}
    # And from a commit, with none of what came before.
    later = dict(source.reached)
    source.reached = {0: 310, 1: BEGIN + 95, 2: later[2]}
    committed = Shore(tmp_path, source, known=later)
    third = committed.run(all_boats(committed, source, but={2}), start=max(second) + 1)
    assert boats_in(third) == boats(source.reached, first=later)
    assert source.known == {river: (end, end) for river, end in later.items()}


def test_neighbours_are_one_range_only_in_the_same_lane(tmp_path):
    source = Rivers(0, 0)
    shore = Shore(tmp_path, source)
    source.reached.clear()
    blocks = []

    async def announce(server):
        rivers = server.sources["north sea"]
        rivers.announced(0, 5, 1)
        rivers.announced(5, 9, 1, 1)
        rivers.announced(9, 12, 1, 1)
        rivers.announced(5, 7, 1)
        server.sequencer.tick()
        blocks.extend(server.sequencer._sequence.read_from(0))

    shore.run(announce, readers=0)
    assert [block.ranges for block in blocks] == [(Range(0, 0, 5), Range(0, 5, 12, lane=1), Range(0, 5, 7))]


def test_a_lane_may_appear_at_any_time(tmp_path):
    source = Rivers(30)
    shore = Shore(tmp_path, source)

    async def another_one_comes(server):
        await shore.reach(server, source.reached)
        source.reached[7] = BEGIN * 7 + 20
        await shore.reach(server, source.reached)
        assert server.sources["north sea"].lanes == [0, 7]

    assert boats_in(shore.run(another_one_comes)) == boats(source.reached)
    source.reached[3] = BEGIN * 3 + 10
    assert boats_in(shore.run(all_boats(shore, source))) == boats(source.reached)
    assert source.known == {0: (30, None), 7: (BEGIN * 7 + 20, None)}


def test_what_is_in_no_block_is_announced_again_in_each_lane(tmp_path):
    source = Rivers(50, 40)
    shore = Shore(tmp_path, source)

    async def all_is_announced(server):
        await until(lambda: server.ends() == {"north sea": 50 + BEGIN + 40})

    assert shore.run(all_is_announced, readers=0) == {}
    assert boats_in(shore.run(all_boats(shore, source))) == boats(source.reached)
    assert source.known == {}


def test_a_lane_resumes_at_the_commit_if_the_sequence_ends_before_it(tmp_path):
    source = Rivers(50, 40)
    shore = Shore(tmp_path, source)

    async def some_is_committed(server):
        await shore.reach(server, source.reached)
        server.sources["north sea"].commit({0: 50, 1: BEGIN + 40})

    shore.run(some_is_committed)
    shutil.rmtree(tmp_path / "sequence")
    # The next run knows more of one lane from its commit than the source's own file says.
    source.reached = {0: 60, 1: BEGIN + 60, 2: BEGIN * 2 + 5}
    again = Shore(tmp_path, source, known={0: 10, 1: BEGIN + 55})
    found = again.run(all_boats(again, source))
    assert boats_in(found) == boats(source.reached, first={0: 50, 1: BEGIN + 55})
    assert source.known == {0: (50, 50), 1: (BEGIN + 55, BEGIN + 55)}


def test_the_limit_is_one_for_all_lanes_together(tmp_path):
    source = Rivers(100, 100)
    shore = Shore(tmp_path, source, max_log=3500)
    counted = BOAT_BYTES + 16

    async def it_is_held_back(server):
        rivers = server.sources["north sea"]
        await until(lambda: rivers.held_back)
        await asyncio.sleep(0.01)
        # Ten at a time are announced, in turns.
        assert (rivers.end_of(0), rivers.end_of(1)) == (20, BEGIN + 20)
        assert (rivers.start, rivers.end) == (BEGIN, BEGIN + 40)
        status = server.status()["north sea"]
        assert (status["total_messages"], status["total_bytes"]) == (40, 40 * BOAT_BYTES)
        assert status["backlog_bytes"] == 40 * counted
        await shore.reach(server, {0: 20, 1: BEGIN + 20})
        server.sequencer.delivered(max(shore.outputs) + 1)
        assert rivers.backlog_bytes == 0
        assert rivers.held_back

    async def it_goes_on(server):
        rivers = server.sources["north sea"]
        assert rivers.held_back
        assert rivers.backlog_bytes == 40 * counted
        await until(lambda: source.known == {0: (20, None), 1: (BEGIN + 20, None)})
        rivers.commit({1: BEGIN + 10})
        assert rivers.held_back
        assert (rivers.committed_of(0), rivers.committed_of(1), rivers.start) == (None, BEGIN + 10, BEGIN + 10)
        rivers.commit({0: 20, 1: BEGIN + 10})
        assert not rivers.held_back
        await until(lambda: rivers.held_back)
        assert (rivers.end_of(0), rivers.end_of(1)) == (40, BEGIN + 30)
        # What was committed before is ignored.
        rivers.commit({0: 5, 1: BEGIN + 10})
        assert (rivers.committed_of(0), rivers.held_back) == (20, True)

    shore.run(it_is_held_back)
    shore.run(it_goes_on)


@pytest.mark.parametrize(
    ("announced", "why"),
    [
        ((9, 20, 1, 0), "lane 0 of 'north sea' ends at 10"),
        ((10, 20, 1, 1), "lane 1 of 'north sea' ends at 1010"),
        ((10, 20, 1, -1), "cannot have a lane -1"),
        ((10, 20, 1, 1 << 16), "cannot have a lane 65536"),
    ],
)
def test_invalid_ranges_are_refused(tmp_path, announced, why):
    async def announce(server):
        await until(lambda: server.ends() == {"north sea": BEGIN + 20})
        with pytest.raises(ValueError, match=why):
            server.sources["north sea"].announced(*announced)
        assert server.ends() == {"north sea": BEGIN + 20}

    Shore(tmp_path, Rivers(10, 10)).run(announce)


class Locked:
    """A message that cannot be sent to another process."""

    def __init__(self):
        self.lock = threading.Lock()


@wallaroo.computation(name="lock")
def lock(boat):
    return Locked() if boat.endswith("7;") else boat


@wallaroo.key_extractor
def one_key(_):
    return "all"


@wallaroo.state_computation(name="pass", state=dict)
def pass_by(boat, _):
    return boat


def test_a_dead_letter_names_the_lane_as_the_partition(tmp_path):
    source = Rivers(10, 20)
    source.sinking = {(0, 3), (1, BEGIN + 11)}
    pipeline = wallaroo.source("north sea", source).to(lock).key_by(one_key).to(pass_by).to_sink(Shelf())
    shore = Shore(tmp_path, source, built=wallaroo.build_application("Rivers", pipeline))
    shore.run(all_boats(shore, source))
    found = Counter((each["step"], each["source"], each["partition"], each["position"]) for each in shore.letters)
    # Those that cannot be sent are found again by a rerun of their block.
    expected = [("pass", 0, 7), ("pass", 1, BEGIN + 7), ("pass", 1, BEGIN + 17)]
    expected += [("decoder", 0, 3), ("decoder", 1, BEGIN + 11)]
    assert found == Counter((step, "north sea", river, number) for step, river, number in expected)


def test_calls_for_the_same_position_of_different_lanes_have_different_names(tmp_path):
    class Note:
        def __init__(self):
            self.calls = []

        def call(self, text):
            self.calls.append(text)

        def no_call(self):
            pass

    worker = Shore(tmp_path, Rivers()).worker
    block = SequencedBlock(0, 0, 1, (Range(0, 0, 3), Range(0, 0, 3, lane=1), Range(0, 3, 4, lane=1)))
    note = Note()
    with worker.watched(CallGuard({}, note)):
        worker.run_first(block, 1)
    decoded = [call for call in note.calls if "decoder" in call]
    assert len(decoded) == len(set(decoded)) == 7
    assert block.ends == {Lane(0): 3, Lane(0, 1): 4}
