"""Connecting to an address."""

import socket

from wallaroo.connectors.tcp.sockets import dial


def test_a_connection_asks_whether_a_silent_receiver_is_still_there():
    """A receiver whose machine disappears cannot be simulated here; that keepalive is enabled can be checked."""
    with socket.create_server(("127.0.0.1", 0)) as server, dial(server.getsockname(), 5) as connection:
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        assert [connection.getsockopt(socket.IPPROTO_TCP, option) for option in options] == [60, 10, 6]
