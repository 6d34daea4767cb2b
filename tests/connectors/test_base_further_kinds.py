"""Further kinds of sources and sinks, made as new connectors would be, in the real ingress, worker and egress."""

import asyncio
import threading
from array import array
from collections import deque
from contextlib import closing

import pytest

import wallaroo
from wallaroo import testing
from wallaroo.connectors import registry
from wallaroo.connectors.base import LoggedKind, ReplayableKind
from wallaroo.connectors.polling_intake import PollingIntake
from wallaroo.engine.delivery.collector import Collector
from wallaroo.engine.delivery.egress import Egress
from wallaroo.engine.delivery.ledger import Ledger
from wallaroo.engine.directory.commit import Commits
from wallaroo.engine.directory.home import Home
from wallaroo.engine.plan import Plan, new_layout
from wallaroo.engine.spark.preflight import check_connectors
from wallaroo.engine.stages.outbox import Outbox
from wallaroo.engine.stages.steps import to_sink
from wallaroo.engine.transport.dead_letter_record import load_records
from wallaroo.engine.transport.shuffle_format import Chunk
from wallaroo.errors import WallarooParameterError
from wallaroo.ingress.block_sequence import SequenceWriter
from wallaroo.ingress.config import IngressConfig, endpoint_of
from wallaroo.ingress.log import LogReader
from wallaroo.ingress.server import IngressServer
from wallaroo.topology.drawing import draw

from ..engine.delivery.recording_progress import RecordingProgress  # noqa: TID252 - tests are not installed
from ..ingress.conftest import until  # noqa: TID252
from .shore import Shelf, ShelfKind, Shore, application, decode

AT_ONCE = 10
WAVE_BYTES = 84


class Tides:
    """A config: a topic of messages, which have numbers and stay where they are."""

    decoder = decode

    def __init__(self, topic, messages=()):
        self.topic = topic
        self.messages = deque(messages)


class TideIntake(PollingIntake):
    def __init__(self, config, log):
        super().__init__()
        self._config = config
        self._log = log

    async def run(self):
        while True:
            while len(self._config.messages) > self._log.end and not self._log.held_back:
                self._log.received([self._config.messages[self._log.end]])
            await asyncio.sleep(0.001)


class TideKind(LoggedKind):
    name = "tides"
    config_class = Tides
    nature = "takes the tides"

    def mistakes(self, config):
        if not config.topic:
            yield "the topic is empty: give one, such as 'cuxhaven'"

    def shown(self, config):
        return (f"tides of {config.topic}",)

    def preflight(self, pipeline, config):
        if config.topic == "dry":
            raise WallarooParameterError(f"Pipeline {pipeline!r} has no tides.")

    def intake(self, config, place, log, context):
        return TideIntake(config, log)


class Waves:
    """A config: waves have numbers, and can be looked up by them at any time; `reached` is after the last one."""

    decoder = decode

    def __init__(self, reached=0):
        self.reached = reached
        self.forgotten = 0


class WaveIntake(PollingIntake):
    def __init__(self, config, ranges):
        super().__init__()
        self._config = config
        self._ranges = ranges

    async def run(self):
        while True:
            start = self._ranges.end_of() or 0
            end = min(start + AT_ONCE, self._config.reached)
            # Every hundredth number is not given to any wave.
            first = start + (start % 100 == 0)
            if first < end and not self._ranges.held_back:
                self._ranges.announced(first, end, WAVE_BYTES * (end - first))
            self._config.forgotten = self._ranges.committed_of()
            await asyncio.sleep(0)


class WaveReader:
    def __init__(self, beach):
        self._beach = beach

    def read(self, first, end, lane=0):
        assert lane == 0
        for number in range(first, end, 3):
            yield number, [f"{self._beach} {each};".encode() for each in range(number, min(number + 3, end))]


class WaveKind(ReplayableKind):
    name = "waves"
    config_class = Waves
    nature = "counts the waves"

    def mistakes(self, config):
        return iter(())

    def shown(self, config):
        return ("waves",)

    def place(self, config):
        return {"beach": "sylt"}

    def intake(self, config, place, ranges, context):
        assert place == self.place(config)
        return WaveIntake(config, ranges)

    def reader(self, config, place, log):
        return WaveReader(place["beach"])


class Crate(Shelf):
    """A config: outputs are put into a list with a label; the encoder returns both."""

    encoder = wallaroo.encoder(lambda text: (text, text[:1]) if text else None)


class Labelled(bytes):
    """What is in a crate."""


class CrateKind(ShelfKind):
    config_class = Crate

    def packer(self, config):
        def pack(encoded):
            content, label = encoded
            if label == "x":
                raise ValueError("no such label")
            return f"{label}|{content}".encode()

        return pack

    def unpacked(self, message):
        label, content = message.split(b"|", 1)
        made = Labelled(content)
        made.label = label
        return made


@pytest.fixture(autouse=True)
def further_kinds(monkeypatch):
    monkeypatch.setattr(registry, "SOURCES", [*registry.SOURCES, TideKind(), WaveKind()])
    monkeypatch.setattr(registry, "SINKS", [*registry.SINKS, CrateKind(), ShelfKind()])


def test_an_application_of_them_is_built_and_drawn_or_refused():
    built = application(Tides("cuxhaven"), Shelf())
    assert "│ tides of cuxhaven ├──▶│ a shelf │" in draw(built)
    with pytest.raises(WallarooParameterError, match="pipeline 'north sea': the topic is empty"):
        application(Tides(""), Shelf())
    check_connectors(built.pipelines)
    with pytest.raises(WallarooParameterError, match="Pipeline 'north sea' has no tides"):
        check_connectors(application(Tides("dry"), Shelf()).pipelines)


def test_an_intake_fills_the_log_and_continues_where_it_was(tmp_path):
    source = Tides("cuxhaven", [b"high", b"low"])
    endpoint = endpoint_of("north sea", source, str(tmp_path / "log"))
    config = IngressConfig([endpoint], str(tmp_path / "control"), "token", str(tmp_path / "sequence"))

    async def serve(end):
        server = IngressServer(config, print)
        try:
            assert await server.start() == {}
            await until(lambda: server.ends() == {"north sea": end})
            assert server.status()["north sea"]["connections"] == 0
            await server.drain()
            source.messages.append(b"late")
            await asyncio.sleep(0.01)
            assert server.ends() == {"north sea": end}
        finally:
            server.close()

    for end in (2, 3):
        asyncio.run(asyncio.wait_for(serve(end), 60))
    found = [payload for _, payloads in LogReader(tmp_path / "log").read(0, 3) for payload in payloads]
    assert found == [b"high", b"low", b"late"]


def waves_in(outputs):
    """Return the numbers of the waves, in the order of the blocks."""
    return [int(wave.split()[1]) for number in sorted(outputs) for wave in outputs[number].decode().split(";") if wave]


def waves_below(end, first=0):
    return [number for number in range(first, end) if number % 100]


def test_messages_that_stay_elsewhere_are_read_there_by_the_worker(tmp_path):
    source = Waves(reached=250)
    shore = Shore(tmp_path, source)

    async def all_waves(server):
        await shore.reach(server, {0: source.reached})

    first = shore.run(all_waves)
    assert waves_in(first) == waves_below(250)
    source.reached = 333
    # From the beginning, as after a crash without a commit: the same blocks have the same messages.
    second = shore.run(all_waves)
    assert waves_in(second) == waves_below(333)
    assert {number: second[number] for number in first} == first
    # And from a commit, with none of what came before.
    source.reached = 350
    third = shore.run(all_waves, start=max(second) + 1)
    assert waves_in(third) == waves_below(350, first=333)
    assert not LogReader(tmp_path / "log").end()


def test_what_was_announced_and_is_in_no_block_is_announced_again(tmp_path):
    source = Waves(reached=50)
    shore = Shore(tmp_path, source)

    async def all_is_announced(server):
        await until(lambda: server.ends() == {"north sea": 50})

    async def all_waves(server):
        await shore.reach(server, {0: 50})

    assert shore.run(all_is_announced, readers=0) == {}
    assert not SequenceWriter(tmp_path / "sequence", []).end
    assert waves_in(shore.run(all_waves)) == waves_below(50)


def test_no_more_is_announced_than_may_be_unprocessed(tmp_path):
    source = Waves(reached=100)
    shore = Shore(tmp_path, source, max_log=3500)

    async def it_is_held_back(server):
        north_sea = server.sources["north sea"]
        await until(lambda: north_sea.held_back)
        await asyncio.sleep(0.01)
        # Each wave counts for 16 bytes more than it has, and ten at a time are announced.
        assert (north_sea.end, north_sea.start) == (40, 1)
        status = server.status()["north sea"]
        assert (status["total_messages"], status["total_bytes"]) == (39, 39 * WAVE_BYTES)
        assert status["backlog_bytes"] == 39 * (WAVE_BYTES + 16)
        await shore.reach(server, {0: 40})
        server.sequencer.delivered(max(shore.outputs) + 1)
        assert north_sea.backlog_bytes == 0
        assert north_sea.held_back

    async def it_goes_on(server):
        north_sea = server.sources["north sea"]
        assert north_sea.held_back
        north_sea.commit({0: 5})
        assert north_sea.held_back
        north_sea.commit({0: 40})
        await until(lambda: north_sea.end == 80 and north_sea.held_back)
        await until(lambda: source.forgotten == 40)
        await shore.reach(server, {0: 80})

    async def it_is_done(server):
        north_sea = server.sources["north sea"]
        assert (north_sea.start, north_sea.held_back) == (40, True)
        north_sea.commit({0: 80})
        await shore.reach(server, {0: 100})
        assert not north_sea.held_back

    shore.run(it_is_held_back)
    assert "'north sea' has announced" in shore.notices[0]
    shore.run(it_goes_on)
    assert waves_in(shore.run(it_is_done)) == waves_below(100)


@pytest.mark.parametrize(
    "announced",
    [(9, 20, 1), (10, 10, 1), (12, 11, 1), (10, 20, -1), (10, 20, 1 << 32), (10, 1 << 27, 1), (10, 20, 1, 1)],
)
def test_invalid_ranges_are_refused(tmp_path, announced):
    async def announce(server):
        await until(lambda: server.ends() == {"north sea": 10})
        with pytest.raises(ValueError, match=r"cannot come next|not a part of a block|cannot have a lane"):
            server.sources["north sea"].announced(*announced)
        assert server.ends() == {"north sea": 10}

    shore = Shore(tmp_path, Waves(reached=10))
    shore.run(announce)


def test_a_sink_gets_the_messages_of_every_block_once(tmp_path):
    shelf = Shelf()
    built = application(Tides("cuxhaven"), shelf)
    plan = Plan(built, new_layout(built.pipelines, 4))
    commits = Commits(tmp_path / "commit.json", tmp_path / "states")
    chunks = [Chunk(0, 0, 2, b"onetwo", array("I", [3, 3])), Chunk(0, 1, 1, b"three", array("I", [5]))]
    around = (RecordingProgress([]), threading.Event(), print)
    with (
        closing(Collector(str(tmp_path / "socket"), "token", commits)) as collector,
        closing(Egress(plan, Home(tmp_path), collector, commits, *around, effectively_once=True)) as egress,
    ):
        egress.deliver(7, chunks)
        egress.deliver(7, chunks)
    with closing(Ledger(Home(tmp_path).ledger)) as ledger:
        assert shelf.blocks == [(7, [b"one", b"two", b"three"]), ("closed", ledger.id, True)]


class TestASinkWhoseEncoderReturnsNoBytes:
    def test_a_worker_packs_what_it_returns_and_what_does_not_fit_is_an_error_of_the_encoder(self, tmp_path):
        built = application(Tides("cuxhaven"), Crate())
        plan = Plan(built, new_layout(built.pipelines, 4), sources=["north sea"])
        outbox = Outbox(plan)
        to_sink(plan, outbox, built.pipelines[0], 0)(["high", "", "xx", "low"])
        shares = [[]]
        outbox.share_out(0, shares, 0)
        output, letters = shares[0]
        assert (output.body, output.marks) == (b"h|highl|low", array("I", [6, 5]))
        [letter] = load_records(letters.body)
        assert (letter["step"], letter["error"]) == ("encoder", "ValueError: no such label")

    def test_a_test_sees_what_is_delivered(self):
        encoded = testing.run(application(Tides("cuxhaven"), Crate()), [b"high", b"", b"low"], encoded=True)
        assert encoded == [b"high", b"low"]
        assert [each.label for each in encoded] == [b"h", b"l"]
