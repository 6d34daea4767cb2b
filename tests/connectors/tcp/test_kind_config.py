"""Source and sink configs keep what they are given."""

import pickle
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wallaroo


@wallaroo.encoder
def encode(data):
    return data


@wallaroo.decoder
def decode(bs):
    return bs


@pytest.mark.parametrize("port", ["7010", 7010])
def test_the_port_is_kept_as_given_and_read_as_a_number(port):
    source = wallaroo.TCPSourceConfig("127.0.0.1", port, decode)
    sink = wallaroo.TCPSinkConfig("::1", port, encode)
    assert (source.host, source.port, source.decoder) == ("127.0.0.1", port, decode)
    assert (sink.host, sink.port, sink.encoder) == ("::1", port, encode)
    assert source.address == ("127.0.0.1", 7010)
    assert sink.address == ("::1", 7010)


def test_arguments_have_names():
    assert wallaroo.TCPSourceConfig(host="h", port="1", decoder=decode).decoder is decode
    assert wallaroo.TCPSinkConfig(host="h", port="1", encoder=encode).encoder is encode


def test_a_sink_may_have_a_name():
    assert wallaroo.TCPSinkConfig("h", 1, encode).name is None
    sink = wallaroo.TCPSinkConfig("h", 1, encode, name="alerts")
    assert sink.name == "alerts"
    assert repr(sink) == "TCPSinkConfig(host='h', port=1, encoder=<@wallaroo.encoder 'encode'>, name='alerts')"
    with pytest.raises(TypeError):
        wallaroo.TCPSinkConfig("h", 1, encode, "alerts")


REST = {"valid": True, "parallelism": 10, "max_size": 16384, "max_received_count": 50}


@pytest.mark.parametrize(
    ("arguments", "named", "expected"),
    [
        (("h", "1", decode), {}, {}),
        (("h", "1", decode, 4), {}, {"parallelism": 4}),
        (("h", "1", decode), {"parallelism": 4}, {"parallelism": 4}),
        (("h", "1"), {"decoder": decode, "parallelism": 4}, {"parallelism": 4}),
        ((), {"host": "h", "port": "1", "decoder": decode}, {}),
        (("n", "h", "1", decode), {}, {"name": "n"}),
        (("n", "h", "1"), {"decoder": decode}, {"name": "n"}),
        (("n", "h", "1", decode, False), {}, {"name": "n", "valid": False}),
        (
            ("n", "h", "1", decode, True, 5, 6, 7),
            {},
            {"name": "n", "parallelism": 5, "max_size": 6, "max_received_count": 7},
        ),
        (("n", "h", "1", decode), {"parallelism": 4}, {"name": "n", "parallelism": 4}),
        (("n", "h", "1", decode), {"max_size": 4}, {"name": "n", "max_size": 4}),
        ((), {"name": "n", "host": "h", "port": "1", "decoder": decode}, {"name": "n"}),
    ],
)
def test_every_way_to_write_a_tcp_source(arguments, named, expected):
    source = wallaroo.TCPSourceConfig(*arguments, **named)
    assert (source.host, source.port, source.decoder, source.address) == ("h", "1", decode, ("h", 1))
    found = {name: getattr(source, name) for name in ("name", *REST)}
    assert found == {"name": None, **REST, **expected}
    shown = "name='n', " if "name" in expected else ""
    assert repr(source) == f"TCPSourceConfig({shown}host='h', port='1', decoder=<@wallaroo.decoder 'decode'>)"


@pytest.mark.parametrize(
    ("arguments", "named", "shown"),
    [
        ((), {}, "()"),
        (("h", "1"), {}, "('h', '1')"),
        (("h", "1", decode), {"valid": True}, "('h', '1', decode, valid=True)"),
        (("h", "1", decode), {"colour": "red"}, "('h', '1', decode, colour='red')"),
        (("n", "h", "1", decode, True, 1, 2, 3, 4), {}, "('n', 'h', '1', decode, True, 1, 2, 3, 4)"),
        (("h", "1", decode), {"name": "n"}, "('h', '1', decode, name='n')"),
    ],
)
def test_arguments_that_fit_no_way_to_write_a_tcp_source(arguments, named, shown):
    with pytest.raises(wallaroo.WallarooParameterError) as refused:
        wallaroo.TCPSourceConfig(*arguments, **named)
    assert str(refused.value) == (
        "TCPSourceConfig takes (host, port, decoder), or (name, host, port, decoder), optionally followed by "
        f"parallelism or valid, parallelism, max_size, max_received_count; got {shown}."
    )


class Numbers:
    def initial_value(self):
        return 1

    def apply(self, v):
        return v + 1


@pytest.mark.parametrize(
    ("arguments", "named", "name"),
    [
        ((Numbers,), {}, None),
        ((), {"gen": Numbers}, None),
        (("n", Numbers), {}, "n"),
        (("n",), {"gen": Numbers}, "n"),
        ((), {"name": "n", "gen": Numbers}, "n"),
    ],
)
def test_every_way_to_write_a_generator(arguments, named, name):
    config = wallaroo.GenSourceConfig(*arguments, **named)
    assert (config.generator, config.name) == (Numbers, name)


@pytest.mark.parametrize(
    ("arguments", "named", "shown"),
    [
        ((), {}, "()"),
        (("n", Numbers, 5), {}, "('n', Numbers, 5)"),
        ((), {"name": "n"}, "(name='n')"),
        ((Numbers,), {"name": "n"}, "(Numbers, name='n')"),
    ],
)
def test_arguments_that_fit_no_way_to_write_a_generator(arguments, named, shown):
    with pytest.raises(wallaroo.WallarooParameterError) as refused:
        wallaroo.GenSourceConfig(*arguments, **named)
    assert str(refused.value).startswith(
        f"GenSourceConfig takes a generator, or a name and a generator; got {shown}. A generator has initial_value()"
    )


@settings(deadline=None)
@given(st.recursive(st.none() | st.integers() | st.text() | st.binary(), st.lists))
def test_what_a_generator_makes_is_read_back_from_frames(message):
    decoder = wallaroo.GenSourceConfig(Numbers()).decoder
    payload = pickle.dumps(message)
    frame = struct.pack(">I", len(payload)) + payload
    header, rest = frame[: decoder.header_length()], frame[decoder.header_length() :]
    assert decoder.payload_length(header) == len(rest)
    assert decoder.decode(rest) == message


def test_a_wrong_port_waits_for_the_build():
    config = wallaroo.TCPSinkConfig("127.0.0.1", "http", encode)
    assert repr(config) == "TCPSinkConfig(host='127.0.0.1', port='http', encoder=<@wallaroo.encoder 'encode'>)"
    with pytest.raises(wallaroo.WallarooParameterError, match="got 'http'"):
        _ = config.address
