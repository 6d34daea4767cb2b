"""Connectors that are declared with a name."""

import pytest

import wallaroo
from wallaroo import testing
from wallaroo.api import connectors
from wallaroo.experimental import stream_message_decoder, stream_message_encoder


@stream_message_decoder
def decode(bs):
    return bs.decode()


@stream_message_encoder
def encode(text):
    return text


@wallaroo.computation("shout")
def shout(text):
    return text.upper()


@pytest.fixture(autouse=True)
def nothing_declared(monkeypatch):
    """Declare nothing beyond a test."""
    monkeypatch.setattr(connectors, "_declared", {"source": {}, "sink": {}})


def test_ports_are_counted_from_7100_and_7200_and_stay_when_the_application_is_built_again():
    for _ in range(2):
        sources = [wallaroo.source_connector(name, encode, decode) for name in ("one", "two", "three")]
        sinks = [wallaroo.sink_connector(name, encoder=encode, decoder=decode) for name in ("one", "two")]
        assert [each.address for each in sources] == [("127.0.0.1", port) for port in (7100, 7101, 7102)]
        assert [each.address for each in sinks] == [("127.0.0.1", port) for port in (7200, 7201)]
    assert wallaroo.source_connector("four", encode, decode, port="7777").address == ("127.0.0.1", 7777)


def test_ports_of_other_connectors_are_skipped():
    wallaroo.source_connector("one", encode, decode, port="7101")
    wallaroo.sink_connector("two", encode, decode, port=7102)
    ports = [wallaroo.source_connector(name, encode, decode).address[1] for name in ("three", "four", "three")]
    assert ports == [7100, 7103, 7100]


def test_names_stand_for_configs_in_a_builder():
    wallaroo.source_connector("feed", encode, decode)
    wallaroo.sink_connector("results", encode, decode)
    wallaroo.sink_connector("others", encode, decode)
    builder = wallaroo.ApplicationBuilder("Shout").new_pipeline("texts", "feed").to(shout)
    assert testing.run(builder.to_sink("results").build(), [b"why"]) == ["WHY"]
    builder = wallaroo.ApplicationBuilder("Shout").new_pipeline("texts", "feed").to(shout)
    chosen = builder.to_sinks(["results", "others"], choose=lambda text: "others" if text == "WHY" else "results")
    assert testing.run_all(chosen.build(), [b"why", b"hello"]) == {
        "texts[results]": ["HELLO"],
        "texts[others]": ["WHY"],
    }


def test_a_builder_declares_them_too():
    builder = wallaroo.ApplicationBuilder("Copy").source_connector("feed", encode, decode)
    builder = builder.sink_connector("results", encoder=encode, decoder=decode, port=7300)
    application = builder.new_pipeline("texts", "feed").to_sink("results").build()
    [pipeline] = application.pipelines
    assert (pipeline.source.address, pipeline.sinks[0].address) == (("127.0.0.1", 7100), ("127.0.0.1", 7300))


def test_names_stand_for_configs_in_pipelines():
    wallaroo.source_connector("feed", encode, decode)
    wallaroo.sink_connector("results", encode, decode)
    for end in (lambda pipeline: pipeline.to_sink("results"), lambda pipeline: pipeline.to_sinks(["results"])):
        application = wallaroo.build_application("Shout", end(wallaroo.source("texts", "feed").to(shout)))
        assert testing.run(application, [b"why"]) == ["WHY"]


def test_configs_of_the_last_generation_have_a_name_and_an_address():
    source = wallaroo.SourceConnectorConfig("feed", encode, decode, 7101, "localhost")
    sink = wallaroo.SinkConnectorConfig(name="results", encoder=encode, decoder=decode, port=7201)
    assert (source.address, sink.address) == (("localhost", 7101), ("127.0.0.1", 7201))
    assert connectors.declared("source")["feed"] == (encode, decode, "localhost", 7101)
    assert connectors.declared("sink")["results"] == (encode, decode, "127.0.0.1", 7201)
    application = wallaroo.build_application("Shout", wallaroo.source("texts", source).to(shout).to_sink(sink))
    assert testing.run(application, [b"why"]) == ["WHY"]


def test_configs_of_the_generation_before_it_have_only_an_address():
    for source in (
        wallaroo.SourceConnectorConfig("127.0.0.1", "7101", decode),
        wallaroo.SourceConnectorConfig(host="127.0.0.1", port=7101, decoder=decode),
    ):
        assert (source.address, source.decoder) == (("127.0.0.1", 7101), decode)
    for sink in (
        wallaroo.SinkConnectorConfig("127.0.0.1", 7201, encode),
        wallaroo.SinkConnectorConfig(host="127.0.0.1", port="7201", encoder=encode),
    ):
        assert (sink.address, sink.encoder) == (("127.0.0.1", 7201), encode)
    assert connectors.declared("source") == connectors.declared("sink") == {}


def test_names_that_nothing_was_declared_with_are_mistakes():
    builder = wallaroo.ApplicationBuilder("Copy").new_pipeline("texts", "feed").to_sink("results")
    with pytest.raises(wallaroo.WallarooParameterError) as refused:
        builder.build()
    assert (
        "got 'feed' (a str): no source connector has this name: declare it with wallaroo.source_connector, or"
        in str(refused.value)
    )
    assert "got 'results' (a str): no sink connector has this name: declare it with wallaroo.sink_connector, or" in str(
        refused.value
    )
