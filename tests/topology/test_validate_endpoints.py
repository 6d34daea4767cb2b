"""What is found wrong with sources and sinks of any kind."""

import pytest

import wallaroo
from wallaroo.topology.model import Pipeline
from wallaroo.topology.validate_endpoints import (
    listening_mistakes,
    shared_sink_mistakes,
    sink_mistakes,
    source_mistakes,
)


@wallaroo.decoder
def decode(bs):
    return bs


@wallaroo.encoder
def encode(data):
    return data


def source(host="127.0.0.1", port="7010"):
    return wallaroo.TCPSourceConfig(host, port, decode)


def sink(port="7002"):
    return wallaroo.TCPSinkConfig("127.0.0.1", port, encode)


class Counter:
    def initial_value(self):
        return 0

    def apply(self, v):
        return v + 1


class LooksLikeOne:
    decoder = decode
    encoder = encode
    host = "127.0.0.1"
    port = 7010


def test_sources_and_sinks_without_mistakes():
    assert [*source_mistakes(source()), *source_mistakes(wallaroo.GenSourceConfig(Counter))] == []
    assert list(sink_mistakes(sink())) == []


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (sink(), "that is a sink, write wallaroo.TCPSourceConfig(host, port, decoder)"),
        (wallaroo.TCPSourceConfig, "got the class TCPSourceConfig"),
        (None, "the source must be a source config; got None"),
        (("127.0.0.1", 7010), "got ('127.0.0.1', 7010) (a tuple)"),
        (LooksLikeOne(), "the source must be a source config; got LooksLikeOne(...) (a LooksLikeOne): write wallaroo."),
        (source(port="http"), "source: the port must be a number from 0 to 65535; got 'http' (a str)"),
        (wallaroo.GenSourceConfig([1, 2]), "the generator [1, 2] has no method initial_value and no apply"),
    ],
)
def test_sources_with_mistakes(config, expected):
    (mistake,) = source_mistakes(config)
    assert expected in mistake


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (source(), "that is a source, write wallaroo.TCPSinkConfig(host, port, encoder)"),
        ("127.0.0.1:7002", "a sink must be a sink config; got '127.0.0.1:7002' (a str)"),
        (LooksLikeOne(), "a sink must be a sink config; got LooksLikeOne(...) (a LooksLikeOne): write wallaroo."),
        (sink(port="x"), "sink: the port must be a number from 0 to 65535; got 'x' (a str)"),
    ],
)
def test_sinks_with_mistakes(config, expected):
    (mistake,) = sink_mistakes(config)
    assert expected in mistake


def test_two_sources_that_listen_on_one_address():
    configs = [source(), source("localhost"), source(port=0), source(port=0), wallaroo.GenSourceConfig(Counter), None]
    pipelines = [Pipeline(name, config, (), ()) for name, config in zip("abcdef", configs, strict=True)]
    assert list(listening_mistakes(pipelines)) == [
        "the pipelines 'a' and 'b' both listen on 127.0.0.1:7010: give each source a port of its own"
    ]


def test_two_sinks_that_cannot_share_a_topic():
    def topic(**options):
        return wallaroo.KafkaSinkConfig("counts", [("127.0.0.1", "9092")], encoder=encode, **options)

    once, twice, again = topic(), topic(exactly_once=False), topic()
    pipelines = [
        Pipeline("a", source(), (), (once, once, sink(), None)),
        Pipeline("b", source(), (), (twice, sink(), sink())),
        Pipeline("c", source(), (), (again,)),
    ]
    different = "write to the topic 'counts' with different exactly_once: give it the same value in both"
    assert list(shared_sink_mistakes(pipelines)) == [
        f"a sink of pipeline 'a' and one of 'b' {different}",
        f"a sink of pipeline 'b' and one of 'c' {different}",
    ]
    within = [Pipeline("a", source(), (), (once, twice))]
    assert list(shared_sink_mistakes(within)) == [f"a sink of pipeline 'a' and one of 'a' {different}"]
