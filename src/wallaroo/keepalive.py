"""Notices machines that are gone: one that vanished, or its network, does not say goodbye."""

from __future__ import annotations

import socket

_QUESTIONS = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 6}
"""Ask after a minute of silence, every ten seconds, and give up after six questions without an answer."""


def notice_dead_peers(sock: socket.socket) -> None:
    """Have the system ask, while a connection is silent, whether the other machine is still there.

    A connection may be silent for hours; without this, one to a machine that is gone would stay for ever. Connections
    inherit it from a socket that listens.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _QUESTIONS.items():
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
