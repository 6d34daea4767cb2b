"""The source's reader: how a batch is cut into tasks, and what a task reads."""

import gc
import pickle
import socket
import stat
import struct

import pyarrow as pa
import pytest

import wallaroo
from wallaroo.engine.source import SourceSettings, WallarooSource
from wallaroo.engine.transport.chunks import ARROW_SCHEMA, NUDGE, Chunk, from_table
from wallaroo.engine.transport.shipping import PlanRef
from wallaroo.errors import WallarooError
from wallaroo.ingress.config import IngressConfig, SourceEndpoint
from wallaroo.ingress.limits import Limits
from wallaroo.ingress.log_writer import LogWriter
from wallaroo.ingress.process import IngressProcess

from ..programs import instructions_for, program_for  # noqa: TID252 - tests are not installed


@pytest.fixture(autouse=True)
def unfreeze():
    """Undo what a worker does to the garbage collector of its process."""
    yield
    gc.unfreeze()


@pytest.fixture
def reader(make, tmp_path):
    """Return the reader of an application with the sources `one` and `two`."""
    plan = make.plan(make.pipeline("one"), make.pipeline("two"), partitions=3)
    plan.program = program_for(plan.application, tmp_path)
    ref = PlanRef.write(plan, tmp_path / "plan")
    settings = SourceSettings(
        logs={name: str(tmp_path / name) for name in ("one", "two")},
        control_path=str(tmp_path / "control"),
        token="secret",
        plan=ref.path,
        digest=ref.digest,
        partitions=3,
        carriers=list(plan.layout.carriers),
        batch_bytes=1 << 20,
    )
    settings.write(tmp_path / "settings")
    source = WallarooSource({"settings": str(tmp_path / "settings")})
    return source.streamReader(source.schema())


def append(folder, payloads, block=10):
    with LogWriter(folder) as log:
        for start in range(0, len(payloads), block):
            log.append(payloads[start : start + block])


def offset(one=0, two=0, nudges=0):
    return {"nudges": nudges, "sources": {"one": one, "two": two}}


def read(reader, partitions):
    """Return the chunks of a batch; each task gets the reader as Spark hands it over."""
    batches = [batch for part in partitions for batch in pickle.loads(pickle.dumps(reader)).read(part)]
    return list(from_table(pa.Table.from_batches(batches, ARROW_SCHEMA)))


def test_only_the_owner_can_read_the_settings(reader, tmp_path):
    assert stat.S_IMODE((tmp_path / "settings").stat().st_mode) == 0o600
    assert SourceSettings.read(str(tmp_path / "settings")).token == "secret"


def test_a_new_application_starts_at_the_beginning(reader):
    assert reader.initialOffset() == offset()


def test_a_handful_of_bytes_is_one_task(reader, tmp_path):
    append(tmp_path / "one", [b"%d" % number for number in range(50)])
    (part,) = reader.partitions(offset(), offset(one=50))
    assert (part.source, part.start, part.end) == ("one", 0, 50)


def test_a_large_batch_is_cut_into_as_many_tasks_as_there_are_partitions(reader, tmp_path):
    append(tmp_path / "one", [b"x" * 1000] * 1000)
    append(tmp_path / "two", [b"y"] * 20)
    parts = reader.partitions(offset(one=100, two=10), offset(one=1000, two=20))
    assert [(part.source, part.start, part.end) for part in parts if part.source == "two"] == [("two", 10, 20)]
    cuts = [(part.start, part.end) for part in parts if part.source == "one"]
    assert len(cuts) == 3
    assert [cut[0] for cut in cuts] == [100, *(cut[1] for cut in cuts[:-1])]
    assert cuts[-1][1] == 1000
    assert all(200 < end - start < 400 for start, end in cuts)


def test_tasks_read_their_ranges(reader, tmp_path):
    append(tmp_path / "one", [b"%06d" % number + b"." * 994 for number in range(400)])
    append(tmp_path / "two", [b"two"] * 10)
    chunks = read(reader, reader.partitions(offset(one=100), offset(one=400, two=10)))
    bodies = {route: b"".join(chunk.body for chunk in chunks if chunk.route == route) for route in (0, 1)}
    assert [line[:6] for line in bodies[0].splitlines()] == [b"%06d" % number for number in range(100, 400)]
    assert bodies[1] == b"two\n" * 10


def test_a_nudge_reaches_every_partition(reader):
    chunks = read(reader, reader.partitions(offset(nudges=1), offset(nudges=2)))
    assert sorted(chunks) == sorted(Chunk(NUDGE, carrier, 0, 0, 0, b"") for carrier in reader._settings.carriers)


def test_a_source_that_is_new_in_an_application_starts_at_its_beginning(reader, tmp_path):
    append(tmp_path / "two", [b"a"] * 10)
    before = {"nudges": 0, "sources": {"one": 0}}
    (part,) = reader.partitions(before, offset(two=10))
    assert (part.source, part.start, part.end) == ("two", 0, 10)


def test_messages_of_a_pipeline_that_is_gone_are_not_passed_over(reader):
    start = {"nudges": 0, "sources": {"one": 0, "gone": 3}}
    with pytest.raises(WallarooError, match="messages of the pipeline 'gone'"):
        reader.partitions(start, {"nudges": 0, "sources": {"one": 0, "gone": 5}})
    assert reader.partitions(start, {"nudges": 1, "sources": {"one": 0, "gone": 3}})


def test_a_batch_whose_end_a_power_failure_took_is_run_with_the_rest(reader, tmp_path):
    with LogWriter(tmp_path / "one") as log:
        log.append([b"a", b"b"])
        log.advance_to(10)
        log.append([b"c"])
    start = {"nudges": 0, "sources": {"one": 0, "two": 0}}
    planned = reader.partitions(start, {"nudges": 0, "sources": {"one": 10, "two": 0}})
    assert [(part.source, part.start, part.end) for part in planned] == [("one", 0, 2)]
    later = reader.partitions(start, {"nudges": 0, "sources": {"one": 11, "two": 0}})
    assert [(part.start, part.end) for part in later] == [(0, 2), (10, 11)]


def test_a_full_log_takes_more_as_soon_as_a_batch_is_done(reader, tmp_path):
    """Spark tells so only with the next batch, which a sender that has to wait would wait for in vain."""

    @wallaroo.decoder
    def decode(bs):
        return bs

    endpoints = [SourceEndpoint(name, "127.0.0.1", 0, decode, str(tmp_path / name)) for name in ("one", "two")]
    program = instructions_for({name: wallaroo.TCPSourceConfig("", "", decode) for name in ("one", "two")}, tmp_path)
    limits = Limits(max_log=1000)
    process = IngressProcess(
        IngressConfig(endpoints, str(tmp_path / "control"), "secret", limits=limits, program=program)
    )
    address = process.start()["one"]
    try:
        with socket.create_connection(address) as connection:
            for number in range(1, 4):
                connection.sendall(struct.pack(">I", 5000) + bytes(5000))
                start, reached = offset(one=number - 1), offset(one=number - 1)
                while reached == start:
                    reached = reader.latestOffset(start, None)
                assert reached == offset(one=number)
    finally:
        reader._ingress.close()
        process.stop()
