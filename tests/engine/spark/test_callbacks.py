"""Who may call back: connections of this user, and of nobody else."""

import os
import socket

import pytest

from wallaroo.engine.spark.callbacks import is_ours


@pytest.fixture(params=["from IPv4", "from IPv6"])
def connection(request):
    """Return the accepted end of a local connection, made as Python or as Java makes it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        if request.param == "from IPv4":
            other = socket.create_connection(address)
        else:
            other = socket.socket(socket.AF_INET6)
            other.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            other.connect((f"::ffff:{address[0]}", address[1]))
        accepted, _ = server.accept()
        with other, accepted:
            yield accepted


def test_a_connection_of_this_user_is_let_in(connection):
    assert is_ours(connection)


def test_a_connection_of_another_user_is_not(connection, monkeypatch):
    another = os.getuid() + 1
    monkeypatch.setattr("os.getuid", lambda: another)
    assert not is_ours(connection)


def test_an_end_that_nobody_has_is_not_ours():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as other:
        accepted, _ = server.accept()
        with accepted:
            other.close()
            assert not is_ours(accepted)
