"""Addresses are parsed the same way everywhere, and those of sources must not clash."""

import re

import pytest

import wallaroo
from wallaroo.addresses import Address, clash, parse_address


@pytest.mark.parametrize("address", [Address("127.0.0.1", 7010), Address("::1", 0), Address("host", 65535)])
def test_what_is_written_is_parsed(address):
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "write host:port"),
        ("7010", "write host:port"),
        ("host", "write host:port"),
        (":7010", "write host:port"),
        ("[]:7010", "write host:port"),
        ("[::1]", "write host:port"),
        ("::1", "put the host in brackets"),
        ("::1:7010", "put the host in brackets"),
        ("host:", "the port must be a number from 0 to 65535"),
        ("host:-1", "the port must be a number from 0 to 65535"),
        ("host:65536", "the port must be a number from 0 to 65535"),
    ],
)
def test_an_invalid_address_is_explained(text, why):
    with pytest.raises(wallaroo.WallarooParameterError, match=f"'{re.escape(text)}' is not an address: {why}"):
        parse_address(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("host", ("host", 9092)), ("[::1]", ("::1", 9092)), ("host:1", ("host", 1)), ("[::1]:1", ("::1", 1))],
)
def test_a_port_can_be_left_out_where_there_is_a_default(text, expected):
    assert parse_address(text, default_port=9092) == expected


@pytest.mark.parametrize("text", ["", ":1", "::1", "[]"])
def test_a_host_cannot_be_left_out(text):
    with pytest.raises(wallaroo.WallarooParameterError, match="is not an address"):
        parse_address(text, default_port=9092)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (("127.0.0.1", 1), ("127.0.0.1", 1), True),
        (("localhost", 1), ("127.0.0.1", 1), True),
        (("HOST", 1), ("host", 1), True),
        (("0.0.0.0", 1), ("127.0.0.1", 1), True),
        (("::", 1), ("::1", 1), True),
        (("127.0.0.1", 1), ("127.0.0.2", 1), False),
        (("127.0.0.1", 1), ("127.0.0.1", 2), False),
        (("127.0.0.1", 0), ("127.0.0.1", 0), False),
    ],
)
def test_clash(one, other, expected):
    assert clash(one, other) is expected
    assert clash(other, one) is expected


@wallaroo.decoder
def decode(bs):
    return bs


def test_two_sources_on_one_address_are_a_mistake():
    builder = wallaroo.ApplicationBuilder("app")
    for number, port in enumerate(["7010", 7011, 7010, "nothing", "nothing", 0, "0"]):
        builder.new_pipeline(f"p{number}", wallaroo.TCPSourceConfig("127.0.0.1", port, decode))
    with pytest.raises(wallaroo.WallarooParameterError) as refused:
        builder.build()
    assert "the pipelines 'p0' and 'p2' both listen on 127.0.0.1:7010" in str(refused.value)
    assert str(refused.value).count("both listen") == 1
    assert str(refused.value).count("the port must be a number") == 2
