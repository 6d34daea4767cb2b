"""The receiver on the page about sinks keeps each block once, also when it is killed."""

import socket
import sqlite3
import sys
import threading
from pathlib import Path

import pytest
from tests.processes import Process

from wallaroo.connectors.base import SinkContext
from wallaroo.connectors.output_block import OutputBlock
from wallaroo.connectors.tcp.confirmed_sink import ConfirmedTcpSink

from ..examples.readme import blocks  # noqa: TID252 - tests are not installed

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "sinks.md").read_text()


@pytest.fixture
def address():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()


@pytest.fixture
def start(tmp_path, address):
    """Start the page's receiver; whatever still runs at the end is stopped."""
    [program] = blocks(PAGE, "python")
    assert "7002" in program
    (tmp_path / "receiver.py").write_text(program.replace("7002", str(address[1])))
    started = []

    def run():
        started.append(Process([sys.executable, "receiver.py"], cwd=tmp_path))
        return started[-1]

    yield run
    for receiver in started:
        receiver.clean_up()


@pytest.fixture
def sink(address):
    def make(application):
        context = SinkContext(threading.Event(), lambda _: None, application, make_durable=lambda _: None)
        return ConfirmedTcpSink(*address, context)

    return make


def test_the_receiver_on_the_page(start, sink, tmp_path):
    one, other = sink("0" * 32), sink("1" * 32)
    receiver = start()
    one.deliver(OutputBlock(0, [b"zero ", b"and more"]))
    one.deliver(OutputBlock(3, [b"three"]))
    one.close()
    receiver.kill()
    start()
    # The first of another run, which does not know that its block was confirmed.
    one.deliver(OutputBlock(3, [b"three, computed anew"]))
    one.deliver(OutputBlock(4, [b""]))
    one.close()
    other.deliver(OutputBlock(0, [b"zero of another"]))
    other.close()
    found = sqlite3.connect(tmp_path / "received.db")
    rows = found.execute("SELECT number, body FROM blocks ORDER BY number, body").fetchall()
    found.close()
    assert rows == [(0, b"zero and more"), (0, b"zero of another"), (3, b"three"), (4, b"")]
