"""The configs of extensions: what is found wrong with them, how they are drawn, and how they are tested."""

import pytest

import wallaroo
from wallaroo import testing
from wallaroo.connectors.extension.kind import SinkExtensionKind, SourceExtensionKind
from wallaroo.errors import AddressError
from wallaroo.experimental import (
    SinkExtensionConfig,
    SourceExtensionConfig,
    stream_message_decoder,
    stream_message_encoder,
    streaming_message_decoder,
    streaming_message_encoder,
)
from wallaroo.topology.drawing import draw


@streaming_message_decoder
def decode(message):
    return message.decode()


@streaming_message_encoder
def encode(message):
    return message.encode()


class Codec:
    def decode(self, message):
        return message

    def encode(self, message):
        return message


@streaming_message_decoder
def decode_of_two(message, other):
    return message, other


def application(*, source=None, sink=None):
    ab = wallaroo.ApplicationBuilder("Copy")
    ab.new_pipeline("words", source or SourceExtensionConfig("127.0.0.1", "7100", decode))
    return ab.to_sink(sink or SinkExtensionConfig("127.0.0.1", 7200, encode)).build()


@pytest.mark.parametrize("decoder", [decode, Codec(), wallaroo.decoder(bytes.decode), stream_message_decoder(str)])
def test_good_sources(decoder):
    assert list(SourceExtensionKind().mistakes(SourceExtensionConfig("127.0.0.1", "7100", decoder))) == []


@pytest.mark.parametrize("encoder", [encode, Codec(), wallaroo.encoder(str), stream_message_encoder(str)])
def test_good_sinks(encoder):
    assert list(SinkExtensionKind().mistakes(SinkExtensionConfig("127.0.0.1", "7200", encoder, "counts"))) == []


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (SourceExtensionConfig("", "7100", decode), "the host of the source must be a string"),
        (SourceExtensionConfig("127.0.0.1", "many", decode), "source: the port must be a number"),
        (SourceExtensionConfig("127.0.0.1", 0, bytes.decode), "write @wallaroo.experimental.streaming_message_decoder"),
        (SourceExtensionConfig("127.0.0.1", 0, Codec), "write Codec() to make one"),
        (SourceExtensionConfig("127.0.0.1", 0, 5), "has no method decode"),
        (
            SourceExtensionConfig("127.0.0.1", 0, decode_of_two),
            "takes a second argument, which only Kafka sources have",
        ),
        (
            SourceExtensionConfig("127.0.0.1", 0, wallaroo.decoder(lambda bs, message: (bs, message))),
            "takes a second argument, which only Kafka sources have",
        ),
        (SinkExtensionConfig("127.0.0.1", -1, encode), "sink: the port must be a number"),
        (SinkExtensionConfig("127.0.0.1", 7200, encode, name=5), "the name of the sink must be a string"),
        (SinkExtensionConfig("127.0.0.1", 7200, str.encode), "is the plain function"),
    ],
)
def test_mistakes(config, words):
    kind = SourceExtensionKind() if isinstance(config, SourceExtensionConfig) else SinkExtensionKind()
    assert words in "\n".join(kind.mistakes(config))


def test_mistakes_are_listed_when_the_application_is_built():
    wrong = SourceExtensionConfig("127.0.0.1", "many", decode)
    with pytest.raises(wallaroo.WallarooParameterError, match="the port must be a number"):
        application(source=wrong)


def test_they_are_drawn():
    drawing = draw(application(), 200)
    assert "extension 127.0.0.1:7100" in drawing
    assert "extension 127.0.0.1:7200" in drawing
    assert "decoded by decode" in drawing


def test_an_application_runs_in_memory():
    assert testing.run(application(), [b"why", "hello"]) == ["why", "hello"]
    assert testing.run(application(), [b"why"], encoded=True) == [b"why"]


@pytest.mark.parametrize(
    ("host", "port", "words"), [("127.0.0.1", 0, "has a port of its own"), ("a..b", 7200, "is not known")]
)
def test_an_address_that_no_script_can_have_is_refused_before_the_start(host, port, words):
    with pytest.raises(AddressError, match=words):
        SinkExtensionKind().preflight("words", SinkExtensionConfig(host, port, encode))
