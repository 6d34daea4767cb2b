"""Which connector a config belongs to."""

import json

import pytest
from tests.processes import run_python

import wallaroo
from wallaroo.connectors import registry
from wallaroo.connectors.dead_letter_replay.kind import ReplaySourceConfig


@wallaroo.decoder
def decode(bs):
    return bs


@wallaroo.encoder
def encode(data):
    return data


class Ones:
    def initial_value(self):
        return 1

    def apply(self, value):
        return value


class OwnSource(wallaroo.TCPSourceConfig):
    pass


SOURCES = [
    (wallaroo.TCPSourceConfig("127.0.0.1", "7010", decode), "tcp", {"host": "127.0.0.1", "port": 7010}),
    (OwnSource("localhost", 0, decode), "tcp", {"host": "localhost", "port": 0}),
    (wallaroo.GenSourceConfig(Ones), "generator", {}),
    (ReplaySourceConfig("/q"), "replay", {"queue": "/q"}),
]
SINK = wallaroo.TCPSinkConfig("127.0.0.1", "7002", encode)


@pytest.mark.parametrize(("config", "name", "place"), SOURCES)
def test_the_kind_of_a_source_and_what_the_ingress_gets_of_it(config, name, place):
    assert registry.is_source(config)
    assert not registry.is_sink(config)
    kind = registry.source_kind(config)
    assert kind is registry.source_kind_called(name)
    assert json.loads(json.dumps(kind.place(config))) == place
    assert list(kind.mistakes(config)) == []
    assert all(isinstance(text, str) and text for text in kind.shown(config))


def test_the_kind_of_a_sink():
    assert registry.is_sink(SINK)
    assert not registry.is_source(SINK)
    assert registry.sink_kind(SINK).shown(SINK) == ("TCP 127.0.0.1:7002", "encoded by encode")


@pytest.mark.parametrize("thing", [None, "127.0.0.1:7010", wallaroo.TCPSourceConfig, decode])
def test_nothing_else_is_one(thing):
    assert not registry.is_source(thing)
    assert not registry.is_sink(thing)
    with pytest.raises(TypeError, match="no kind of source has configs such as"):
        registry.source_kind(thing)
    with pytest.raises(TypeError, match="no kind of sink has configs such as"):
        registry.sink_kind(thing)


def test_names_of_kinds_are_their_own():
    names = [kind.name for kind in registry.SOURCES]
    assert len(set(names)) == len(names)


def test_asking_a_kind_does_not_load_what_runs():
    """Every program that imports wallaroo, and every worker, has all kinds."""
    program = "import sys, wallaroo, wallaroo.connectors.registry; print(*{'asyncio', 'socket'} & set(sys.modules))"
    assert run_python("-c", program).stdout.strip() == ""
