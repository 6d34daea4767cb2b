"""What is found wrong with TCP sources and sinks, and how they are shown."""

import socket

import pytest

import wallaroo
from wallaroo.connectors.tcp.kind import TcpSinkKind, TcpSourceKind
from wallaroo.errors import AddressError


@wallaroo.decoder
def decode(bs):
    return bs


@wallaroo.encoder
def encode(data):
    return data


def source(host="127.0.0.1", port="7010", decoder=decode):
    return wallaroo.TCPSourceConfig(host, port, decoder)


def sink(host="127.0.0.1", port="7002", encoder=encode, **options):
    return wallaroo.TCPSinkConfig(host, port, encoder, **options)


def named(**options):
    return wallaroo.TCPSourceConfig("n", "127.0.0.1", "7010", decode, **options)


@pytest.mark.parametrize("config", [source(), source(port=0), source(port="65535"), named(parallelism=1, valid=False)])
def test_good_sources(config):
    assert list(TcpSourceKind().mistakes(config)) == []


@pytest.mark.parametrize("config", [sink(), sink(port=7002), sink(name="alerts")])
def test_good_sinks(config):
    assert list(TcpSinkKind().mistakes(config)) == []


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (source(host=None), "the host of the source must be a string such as '127.0.0.1'; got None"),
        (source(host=""), "the host of the source must be a string such as '127.0.0.1'; got ''"),
        (source(port="http"), "source: the port must be a number from 0 to 65535; got 'http' (a str)"),
        (source(port=65536), "got 65536 (an int)"),
        (source(port=-1), "got -1 (an int)"),
        (source(port=True), "got True (a bool)"),
        (source(port=None), "got None"),
        (source(port=70.5), "got 70.5 (a float)"),
        (source(decoder=encode), "the decoder encode has no method header_length, payload_length and no decode"),
        (named(parallelism=0), "parallelism of the source must be a whole number, 1 or more; got 0 (an int)"),
        (named(parallelism="ten"), "parallelism of the source must be a whole number, 1 or more; got 'ten' (a str)"),
        (named(max_size=True), "max_size of the source must be a whole number, 1 or more; got True (a bool)"),
        (named(max_received_count=1.5), "max_received_count of the source must be a whole number, 1 or more; got 1.5"),
        (wallaroo.TCPSourceConfig(5, "h", 1, decode), "the name of the source config must be a string; got 5 (an int)"),
    ],
)
def test_sources_with_mistakes(config, expected):
    (mistake,) = TcpSourceKind().mistakes(config)
    assert expected in mistake


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (sink(host=None), "the host of the sink must be a string such as '127.0.0.1'; got None"),
        (sink(port="x"), "sink: the port must be a number from 0 to 65535; got 'x' (a str)"),
        (sink(encoder=decode), "the encoder decode has no method encode"),
        (sink(name=5), "the name of the sink must be a string; got 5 (an int)"),
        (sink(name=""), "the name of the sink is empty: give it a name, or leave it out"),
    ],
)
def test_sinks_with_mistakes(config, expected):
    (mistake,) = TcpSinkKind().mistakes(config)
    assert expected in mistake


def test_a_source_needs_its_own_address_unless_it_is_invalid():
    assert TcpSourceKind().listens_on(source()) == ("127.0.0.1", 7010)
    assert TcpSourceKind().listens_on(source(host=None)) is None
    assert TcpSourceKind().listens_on(source(port="http")) is None


def test_addresses_are_shown_as_they_are_written():
    assert TcpSourceKind().shown(source("::1", "7010")) == ("TCP [::1]:7010", "decoded by decode")
    assert TcpSinkKind().shown(sink()) == ("TCP 127.0.0.1:7002", "encoded by encode")


@pytest.fixture
def name_server(monkeypatch):
    """Return a function that makes every look-up of a name fail in one way."""

    def answers(code, text):
        def fail(*_args, **_options):
            raise socket.gaierror(code, text)

        monkeypatch.setattr(socket, "getaddrinfo", fail)

    return answers


def test_a_receiver_with_a_name_or_an_address_is_waited_for():
    TcpSinkKind().preflight("p", sink())
    TcpSinkKind().preflight("p", sink("localhost"))


def test_an_unknown_host_name_is_refused(name_server):
    name_server(socket.EAI_NONAME, "Name or service not known")
    with pytest.raises(AddressError) as refused:
        TcpSinkKind().preflight("p", sink())
    assert str(refused.value) == (
        "Pipeline 'p' cannot send to 127.0.0.1:7002: the name '127.0.0.1' is not known (name or service not known). "
        "Give the receiver's name or address."
    )


def test_an_invalid_host_name_is_refused():
    with pytest.raises(AddressError, match=r"the name '\.x' is not known \(it is not a valid name\)"):
        TcpSinkKind().preflight("p", sink(".x"))


def test_a_receiver_on_any_port_is_refused():
    with pytest.raises(AddressError, match=r"cannot send to 127\.0\.0\.1:0: a receiver has a port of its own"):
        TcpSinkKind().preflight("p", sink(port=0))


def test_a_name_server_that_does_not_answer_decides_nothing(name_server):
    name_server(socket.EAI_AGAIN, "Temporary failure in name resolution")
    TcpSinkKind().preflight("p", sink())
