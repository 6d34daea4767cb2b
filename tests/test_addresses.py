"""Addresses of sources must not clash."""

import pytest

import wallaroo
from wallaroo.addresses import clash


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
