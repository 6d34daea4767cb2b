"""What the tasks of the query do when Spark ends them."""

import io

import pyarrow as pa
import pytest

from wallaroo.engine.failure_kinds import Kind, failure_of
from wallaroo.engine.stages.tasks import received


def batches_of(data):
    """Yield the batches of a stream as PySpark does: it opens the stream when the first one is asked for."""
    yield from pa.ipc.open_stream(io.BytesIO(data))


def test_a_stream_that_spark_closes_is_no_fault_of_the_application():
    batch = pa.record_batch({"number": [1, 2]})
    stream = io.BytesIO()
    with pa.ipc.new_stream(stream, batch.schema) as writer:
        writer.write_batch(batch)
    whole = stream.getvalue()
    assert list(received(batches_of(whole))) == [batch]
    for cut in (b"", whole[:100]):
        with pytest.raises(EOFError, match=r"Spark has closed a worker's connection \(") as raised:
            list(received(batches_of(cut)))
        assert failure_of(raised.value).kind == Kind.LOST


def test_other_errors_keep_their_type():
    def batches():
        raise ValueError("7")
        yield

    with pytest.raises(ValueError, match="7"):
        list(received(batches()))
