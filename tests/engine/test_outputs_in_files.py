"""Large outputs, from the workers over files to the sinks."""

from __future__ import annotations

import socket
import threading
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa
import pytest

from wallaroo.connectors.base import StoppedError
from wallaroo.engine.delivery.egress import Egress
from wallaroo.engine.directory.home import Home
from wallaroo.engine.stages.worker import Worker
from wallaroo.engine.transport.chunks import ARROW_SCHEMA, record_batches
from wallaroo.ingress.log_reader import LogReader

from .query import Query

PATIENCE = 60
PAYLOADS = [b"%06d %s" % (number, b"x" * 80) for number in range(20_000)]
OUTPUT = b"".join(payload + b"\n" for payload in PAYLOADS)


def count(data, state):
    state["count"] = state.get("count", 0) + 1
    return data, True


@dataclass
class Frame:
    """What Spark hands over at the end of a batch."""

    chunks: list

    def toArrow(self):  # noqa: N802 - Spark's name
        return pa.Table.from_batches(record_batches(self.chunks), ARROW_SCHEMA)


@pytest.fixture
def server():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        yield server


@pytest.fixture
def spool(tmp_path):
    folder = tmp_path / "outputs"
    folder.mkdir()
    return folder


@pytest.fixture(params=["stateless", "stateful"])
def query(request, make, server, spool, tmp_path):
    steps = [make.state_step(count, key=None)] if request.param == "stateful" else []
    line = make.pipeline("p", *steps, port=server.getsockname()[1])
    return Query(make.plan(line, spool=str(spool)), tmp_path)


def test_they_are_sent_in_order_and_nothing_is_left_behind(query, server, spool, tmp_path):
    received = bytearray()

    def receive():
        connection, _ = server.accept()
        with connection:
            while some := connection.recv(1 << 20):
                received.extend(some)

    receiver = threading.Thread(target=receive)
    receiver.start()
    with closing(Egress(query.plan, Home(tmp_path), threading.Event(), print)) as egress:
        for batch in range(2):
            query.append("p", PAYLOADS, block=1000)
            chunks = query.chunks(tasks=2)
            assert any(chunk.file is not None for chunk in chunks)
            egress(Frame(chunks), batch)
            assert list(spool.iterdir()) == []
    receiver.join(PATIENCE)
    assert bytes(received) == OUTPUT * 2


def test_nothing_is_left_of_tasks_and_batches_that_failed(query, server, spool, tmp_path):
    query.append("p", PAYLOADS, block=1000)
    failing = Worker(query.plan)
    log = LogReader(query.folder / "p")
    task = failing.run_source("p", 0, log.read(0, log.end()))
    while not query.plan.layout.levels and next(task).file is None:
        pass
    task.close()
    failing.end_of_task()
    chunks = query.chunks()
    assert list(spool.iterdir())
    server.close()
    stopping = threading.Event()
    stopping.set()
    with closing(Egress(query.plan, Home(tmp_path), stopping, print)) as egress:
        with pytest.raises(StoppedError):
            egress(Frame(chunks), 0)
        assert list(spool.iterdir()) == []
