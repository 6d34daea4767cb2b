"""A further kind of source and of sink, made as a new connector would be, in the real ingress and the real egress."""

import asyncio
import threading
from array import array
from collections import deque
from contextlib import closing

import pytest

import wallaroo
from wallaroo.connectors import kinds
from wallaroo.connectors.base import SinkKind, SourceKind
from wallaroo.connectors.intake import IntakeTask
from wallaroo.engine.delivery.egress import Egress
from wallaroo.engine.delivery.hand_ins import HandIns
from wallaroo.engine.delivery.ledger import Ledger
from wallaroo.engine.directory.commit import Commits
from wallaroo.engine.directory.home import Home
from wallaroo.engine.plan import Plan, new_layout
from wallaroo.engine.spark.preflight import check_connectors
from wallaroo.engine.transport.shares import Chunk
from wallaroo.errors import WallarooParameterError
from wallaroo.ingress.config import IngressConfig, endpoint_of
from wallaroo.ingress.log import LogReader
from wallaroo.ingress.server import IngressServer
from wallaroo.topology.drawing import draw

from ..engine.delivery.told import Told  # noqa: TID252 - tests are not installed
from ..ingress.conftest import until  # noqa: TID252


@wallaroo.decoder
def decode(bs):
    return bs.decode()


@wallaroo.encoder
def encode(data):
    return data


class Tides:
    """A config: a topic of messages, which have numbers and stay where they are."""

    decoder = decode

    def __init__(self, topic, messages=()):
        self.topic = topic
        self.messages = deque(messages)


class TideIntake(IntakeTask):
    def __init__(self, config, log):
        super().__init__()
        self._config = config
        self._log = log

    async def run(self):
        while True:
            while len(self._config.messages) > self._log.end and not self._log.held_back:
                self._log.received([self._config.messages[self._log.end]])
            await asyncio.sleep(0.001)


class TideKind(SourceKind):
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


class Shelf:
    """A config: outputs are put into a list, which stays."""

    encoder = encode

    def __init__(self):
        self.blocks = []


class ShelfConnection:
    name = "shelf"

    def __init__(self, config, context):
        self._config = config
        self._context = context

    def connect(self):
        self._context.notice("there is a shelf")

    def deliver(self, block):
        self._config.blocks.append((block.number, [bytes(each) for each in block.messages()]))

    def close(self):
        self._config.blocks.append(("closed", self._context.application, self._context.effectively_once))


class ShelfKind(SinkKind):
    config_class = Shelf

    def mistakes(self, config):
        return iter(())

    def shown(self, config):
        return ("a shelf",)

    def connection(self, config, context):
        return ShelfConnection(config, context)


@pytest.fixture(autouse=True)
def further_kinds(monkeypatch):
    monkeypatch.setattr(kinds, "SOURCES", [*kinds.SOURCES, TideKind()])
    monkeypatch.setattr(kinds, "SINKS", [*kinds.SINKS, ShelfKind()])


def application(source, sink):
    return wallaroo.ApplicationBuilder("Tides").new_pipeline("north sea", source).to_sink(sink).build()


def test_an_application_of_them_is_built_and_drawn_or_refused():
    built = application(Tides("cuxhaven"), Shelf())
    assert "│ tides of cuxhaven ├──▶│ a shelf │" in draw(built)
    with pytest.raises(WallarooParameterError, match="pipeline 'north sea': the topic is empty"):
        application(Tides(""), Shelf())
    check_connectors(built.pipelines)
    with pytest.raises(WallarooParameterError, match="Pipeline 'north sea' has no tides"):
        check_connectors(application(Tides("dry"), Shelf()).pipelines)


def test_an_intake_fills_the_log_and_goes_on_where_it_was(tmp_path):
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


def test_a_sink_gets_the_messages_of_every_block_once(tmp_path):
    shelf = Shelf()
    built = application(Tides("cuxhaven"), shelf)
    plan = Plan(built, new_layout(built.pipelines, 4))
    commits = Commits(tmp_path / "commit.json", tmp_path / "states")
    chunks = [Chunk(0, 0, 2, b"onetwo", array("I", [3, 3])), Chunk(0, 1, 1, b"three", array("I", [5]))]
    around = (Told([]), threading.Event(), print)
    with (
        closing(HandIns(str(tmp_path / "socket"), "token", commits)) as hand_ins,
        closing(Egress(plan, Home(tmp_path), hand_ins, commits, *around, effectively_once=True)) as egress,
    ):
        egress.deliver(7, chunks)
        egress.deliver(7, chunks)
    with closing(Ledger(Home(tmp_path).ledger)) as ledger:
        assert shelf.blocks == [(7, [b"one", b"two", b"three"]), ("closed", ledger.id, True)]
