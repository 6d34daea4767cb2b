"""The latency application as a Bytewax dataflow, over sockets: `key time` on each line, answered with `key count time`.

`python -m bytewax.run bytewax_latency:flow` connects to the addresses in BENCH_SOURCE and BENCH_SINK. Bytewax has no
connector for sockets, so source and sink are written the way its guide teaches: a partition of the source is polled and
never blocks (Bytewax itself waits a millisecond after a poll that found nothing), and the sink writes what comes at
once. The steps work on batches, and there is no recovery directory, so nothing is durable.
"""

from __future__ import annotations

import os
import socket

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.operators import StatefulBatchLogic
from bytewax.outputs import DynamicSink, StatelessSinkPartition

_READ_SIZE = 1 << 20


def _connect(address):
    host, port = address.split(":")
    connection = socket.create_connection((host, int(port)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


class _Lines(StatefulSourcePartition):
    """The lines that come over one connection."""

    def __init__(self, address):
        self._connection = _connect(address)
        self._connection.setblocking(False)
        self._rest = b""

    def next_batch(self):
        try:
            data = self._connection.recv(_READ_SIZE)
        except BlockingIOError:
            return []
        if not data:
            raise StopIteration
        *lines, self._rest = (self._rest + data).split(b"\n")
        return lines

    def snapshot(self):
        return None


class _Source(FixedPartitionedSource):
    def __init__(self, address):
        self._address = address

    def list_parts(self):
        return ["the only one"]

    def build_part(self, _step_id, _for_part, _resume_state):
        return _Lines(self._address)


class _Answers(StatelessSinkPartition):
    def __init__(self, address):
        self._connection = _connect(address)

    def write_batch(self, items):
        self._connection.sendall(b"".join(items))


class _Sink(DynamicSink):
    def __init__(self, address):
        self._address = address

    def build(self, _step_id, _worker_index, _worker_count):
        return _Answers(self._address)


class Counter(StatefulBatchLogic):
    """How often one key has come."""

    def __init__(self, count):
        self._count = count or 0

    def on_batch(self, values):
        before = self._count
        self._count += len(values)
        return [(count, time) for count, time in enumerate(values, before + 1)], False

    def snapshot(self):
        return self._count


def _decode(lines):
    return [tuple(line.decode().split(" ")) for line in lines]


def _encode(answers):
    return [f"{key} {count} {time}\n".encode() for key, (count, time) in answers]


def flow():
    """Build the dataflow."""
    made = Dataflow("latency")
    lines = op.input("lines", made, _Source(os.environ["BENCH_SOURCE"]))
    messages = op.flat_map_batch("decode", lines, _decode)
    counts = op.stateful_batch("count", messages, Counter)
    op.output("answers", op.flat_map_batch("encode", counts, _encode), _Sink(os.environ["BENCH_SINK"]))
    return made
