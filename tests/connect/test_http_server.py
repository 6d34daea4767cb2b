"""The HTTP server of `wallaroo connect http-post`, and what it refuses."""

import socket
import threading
from contextlib import contextmanager
from http import HTTPStatus

import pytest

from wallaroo import WallarooError
from wallaroo.addresses import Address
from wallaroo.connect import http_server
from wallaroo.connect.http_server import Server

PATIENCE = 60


class Taken(list):
    """The bodies that were taken."""

    def __call__(self, _headers, body):
        self.append(body)
        return HTTPStatus.NO_CONTENT, ""


@pytest.fixture
def taken():
    return Taken()


@contextmanager
def serving(taken, check=lambda: None):
    with Server(Address("127.0.0.1", 0), taken, check) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def exchange(server, request, *, is_half=False):
    """Send a request, and return all that comes until the server closes the connection."""
    with socket.create_connection(server.server_address, PATIENCE) as client:
        client.sendall(request)
        if is_half:
            client.shutdown(socket.SHUT_WR)
        answer = b""
        while data := client.recv(1 << 16):
            answer += data
    return answer


def test_half_a_body_is_none(taken):
    with serving(taken) as server:
        start = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: 5\r\n\r\n"
        assert exchange(server, start + b"hel", is_half=True) == b""
        assert exchange(server, start + b"hello").startswith(b"HTTP/1.1 204 ")
    assert taken == [b"hello"]


def test_requests_that_take_too_long_are_ended(taken, monkeypatch):
    monkeypatch.setattr(http_server, "_REQUEST_SECONDS", 0.05)
    with serving(taken) as server:
        assert exchange(server, b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n\r\nhel") == b""
        assert exchange(server, b"POST / HTT") == b""
    assert taken == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ("Host: pages.example:7180\r\nContent-Length: 1", 403),
        ("Host: [::1\r\nContent-Length: 1", 403),
        ("Host: localhost\r\nOrigin: https://pages.example\r\nContent-Length: 1", 403),
        ("Host: localhost\r\nTransfer-Encoding: chunked", 411),
        ("Host: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 1", 411),
        ("Host: localhost\r\nContent-Length: 1\r\nContent-Length: 2", 411),
        ("Host: localhost\r\nContent-Length: " + "9" * 5000, 413),
        ("Host: LocalHost:7180\r\nConnection: close\r\nContent-Length: 1", 204),
        ("Host: [::1]:7180\r\nConnection: close\r\nContent-Length: 1", 204),
    ],
)
def test_what_is_refused(taken, headers, status):
    with serving(taken) as server:
        answer = exchange(server, f"POST / HTTP/1.1\r\n{headers}\r\n\r\n".encode() + b"x" * (status == 204))
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert taken == [b"x"] * (status == 204)


def test_what_the_check_raises_ends_the_server(taken):
    def check():
        raise WallarooError("It is over.")

    with Server(Address("127.0.0.1", 0), taken, check) as server, pytest.raises(WallarooError, match="It is over"):
        server.serve_forever(0.01)
