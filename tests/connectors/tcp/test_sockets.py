"""The sockets that senders connect to."""

import socket

import pytest

from wallaroo.connectors.tcp.sockets import open_sockets
from wallaroo.errors import WallarooError


@pytest.mark.parametrize(
    ("host", "port", "words"),
    [
        ("192.0.2.1", 0, "this machine does not have that address. Use one that it has: 127.0.0.1"),
        ("no.such.host.invalid", 0, "the name 'no.such.host.invalid' is not known"),
        ("127.0.0.1", 70000, "a port is a number from 0 to 65535"),
    ],
)
def test_an_address_that_cannot_be_used_is_reported(host, port, words):
    with pytest.raises(WallarooError) as caught:
        open_sockets("numbers", host, port)
    assert f"Pipeline 'numbers' cannot listen on {host}:{port}: " in str(caught.value)
    assert words in str(caught.value)


def test_all_addresses_of_a_name_get_the_same_port():
    sockets = open_sockets("numbers", "localhost", 0)
    assert len({sock.getsockname()[1] for sock in sockets}) == 1
    assert sockets[0].getsockname()[0] == "127.0.0.1"
    for sock in sockets:
        sock.close()


def test_connections_ask_whether_a_silent_sender_is_still_there():
    """A sender whose machine disappears cannot be simulated here; that keepalive is enabled can be checked."""
    (listening,) = open_sockets("numbers", "127.0.0.1", 0)
    with listening:
        listening.listen()
        with socket.create_connection(listening.getsockname()), listening.accept()[0] as accepted:
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            assert [accepted.getsockopt(socket.IPPROTO_TCP, option) for option in options] == [60, 10, 6]
