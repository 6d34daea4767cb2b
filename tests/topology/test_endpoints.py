"""What is found wrong with sources and sinks."""

import pytest

import wallaroo
from wallaroo.topology.endpoints import sink_mistakes, source_mistakes


@wallaroo.decoder
def decode(bs):
    return bs


@wallaroo.encoder
def encode(data):
    return data


class GoodDecoder:
    def header_length(self):
        return 4

    def payload_length(self, bs):
        return len(bs)

    def decode(self, bs):
        return bs


def decoder_with(**methods):
    return type("Odd", (GoodDecoder,), methods)()


class OnlyDecodes:
    def decode(self, bs):
        return bs


class GoodEncoder:
    def encode(self, data):
        return data


class EncodesNothing:
    def encode(self):
        return b""


def plain(bs):
    return bs


def broken_header_length(_self):
    raise ZeroDivisionError("oh")


def source(decoder=decode, host="127.0.0.1", port="7010"):
    return wallaroo.TCPSourceConfig(host, port, decoder)


def sink(encoder=encode, host="127.0.0.1", port="7002"):
    return wallaroo.TCPSinkConfig(host, port, encoder)


class Counter:
    def initial_value(self):
        return 0

    def apply(self, v):
        return v + 1


def generated(**methods):
    return wallaroo.GenSourceConfig(type("Odd", (Counter,), methods)())


class CounterFrom(Counter):
    def __init__(self, first):
        self.first = first


def named(**options):
    return wallaroo.TCPSourceConfig("n", "127.0.0.1", "7010", decode, **options)


@pytest.mark.parametrize(
    "config",
    [
        source(),
        source(GoodDecoder()),
        source(port=0),
        source(port="65535"),
        named(parallelism=1, valid=False),
        wallaroo.GenSourceConfig(Counter),
        wallaroo.GenSourceConfig("n", Counter()),
        wallaroo.GenSourceConfig(CounterFrom(5)),
    ],
)
def test_good_sources(config):
    assert list(source_mistakes(config)) == []


@pytest.mark.parametrize("config", [sink(), sink(GoodEncoder()), sink(port=7002)])
def test_good_sinks(config):
    assert list(sink_mistakes(config)) == []


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (sink(), "that is a sink, write wallaroo.TCPSourceConfig(host, port, decoder)"),
        (wallaroo.TCPSourceConfig, "got the class TCPSourceConfig"),
        (None, "the source must be a source config; got None"),
        (("127.0.0.1", 7010), "got ('127.0.0.1', 7010) (a tuple)"),
        (source(host=None), "the host of the source must be a string such as '127.0.0.1'; got None"),
        (source(host=""), "the host of the source must be a string such as '127.0.0.1'; got ''"),
        (source(port="http"), "source: the port must be a number from 0 to 65535; got 'http' (a str)"),
        (source(port=65536), "got 65536 (an int)"),
        (source(port=-1), "got -1 (an int)"),
        (source(port=True), "got True (a bool)"),
        (source(port=None), "got None"),
        (source(port=70.5), "got 70.5 (a float)"),
        (source(GoodDecoder), "the decoder is the class GoodDecoder: write GoodDecoder() to make one"),
        (source(plain), "the decoder is the plain function plain: write @wallaroo.decoder above it"),
        (source(OnlyDecodes()), "OnlyDecodes(...) has no method header_length and no payload_length"),
        (source(encode), "the decoder encode has no method header_length, payload_length and no decode"),
        (source(decoder_with(header_length=4)), "Odd(...) has no method header_length:"),
        (source(decoder_with(header_length=lambda _: 0)), "must return a whole number of bytes from 1 to 64"),
        (source(decoder_with(header_length=lambda _: 65)), "it returned 65 (an int)"),
        (source(decoder_with(header_length=lambda _: True)), "it returned True (a bool)"),
        (source(decoder_with(header_length=lambda _: "4")), "it returned '4' (a str)"),
        (
            source(decoder_with(header_length=broken_header_length)),
            "Odd(...) failed with ZeroDivisionError: oh",
        ),
        (source(decoder_with(header_length=lambda _, bs: 4)), "failed with TypeError"),
        (named(parallelism=0), "parallelism of the source must be a whole number, 1 or more; got 0 (an int)"),
        (named(parallelism="ten"), "parallelism of the source must be a whole number, 1 or more; got 'ten' (a str)"),
        (named(max_size=True), "max_size of the source must be a whole number, 1 or more; got True (a bool)"),
        (named(max_received_count=1.5), "max_received_count of the source must be a whole number, 1 or more; got 1.5"),
        (wallaroo.TCPSourceConfig(5, "h", 1, decode), "the name of the source config must be a string; got 5 (an int)"),
        (
            wallaroo.GenSourceConfig([1, 2]),
            "the generator [1, 2] has no method initial_value and no apply: a generator is an object with",
        ),
        (generated(apply=None), "the generator Odd(...) has no method apply: a generator is"),
        (
            generated(initial_value=lambda _, first: first),
            "initial_value of the generator Odd(...) must allow no arguments; it is written as initial_value(first)",
        ),
        (
            generated(apply=lambda _: 1),
            "apply of the generator Odd(...) must allow 1 argument, as in apply(v); it is written as apply()",
        ),
        (
            wallaroo.GenSourceConfig(CounterFrom),
            "CounterFrom cannot be made without arguments: give an object, CounterFrom(first), not the class",
        ),
        (source(decoder_with(decode=lambda _: 4)), "decode of the decoder Odd(...) must allow 1 argument"),
        (
            source(decoder_with(payload_length=lambda _: 4)),
            "payload_length of the decoder Odd(...) must allow 1",
        ),
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
        (sink(port="x"), "sink: the port must be a number from 0 to 65535; got 'x' (a str)"),
        (sink(GoodEncoder), "the encoder is the class GoodEncoder: write GoodEncoder() to make one"),
        (sink(plain), "the encoder is the plain function plain: write @wallaroo.encoder above it"),
        (sink(decode), "the encoder decode has no method encode"),
        (
            sink(EncodesNothing()),
            "encode of the encoder EncodesNothing(...) must allow 1 argument, as in encode(data)",
        ),
    ],
)
def test_sinks_with_mistakes(config, expected):
    (mistake,) = sink_mistakes(config)
    assert expected in mistake
