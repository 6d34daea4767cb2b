"""Chunks as rows, and what is inside them."""

import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wallaroo.engine.transport.chunks import (
    ARROW_SCHEMA,
    Chunk,
    Serializer,
    dump_records,
    from_table,
    load_records,
    record_batches,
)

ints = st.integers(-(2**31), 2**31 - 1)
chunks = st.builds(Chunk, ints, ints, st.integers(-(2**63), 2**63 - 1), ints, ints, st.binary(max_size=20))


@settings(deadline=None)
@given(st.lists(chunks, min_size=1, max_size=10))
def test_chunks_survive_the_way_through_arrow(chunks):
    table = pa.Table.from_batches(record_batches(chunks))
    assert table.schema == ARROW_SCHEMA
    found = list(from_table(table))
    assert sorted(found, key=repr) == sorted(chunks, key=repr)
    assert [chunk.order for chunk in found] == sorted(chunk.order for chunk in chunks)


def test_chunks_of_a_route_come_in_the_order_of_the_input():
    wanted = [
        Chunk(route, 0, seq, part, 1, b"") for route in (-1, 0, 5) for seq in (0, 9, 10**12) for part in (0, 1, 10)
    ]
    mixed = random.Random(1).sample(wanted, len(wanted))
    batches = [batch for chunk in mixed for batch in record_batches([chunk])]
    assert list(from_table(pa.Table.from_batches(batches))) == wanted


def test_an_empty_batch_has_no_chunks():
    assert list(from_table(ARROW_SCHEMA.empty_table())) == []


OBJECTS = [None, 0, "é", b"\x00", [1, [2]], {"a": (1, 2)}, {1, 2}, frozenset("ab")]


@pytest.mark.parametrize("own", [False, True])
def test_messages_and_states_survive(own):
    serializer = Serializer(lambda data: repr(data).encode(), eval) if own else Serializer()
    messages = {"a": OBJECTS, None: [1], ("k", 1): ["x"] * 3}
    assert serializer.load_messages(serializer.dump_messages(messages)) == messages
    states = dict(enumerate(OBJECTS))
    assert serializer.load_states(serializer.dump_states(states)) == states
    for each in OBJECTS:
        assert serializer.load(serializer.dump(each)) == each


def test_keys_are_not_the_applications_to_serialise():
    serializer = Serializer(lambda data: b"<" + data + b">", lambda data: data[1:-1].upper())
    assert serializer.load_messages(serializer.dump_messages({("key", 1): [b"a", b"b"]})) == {("key", 1): [b"A", b"B"]}
    assert serializer.load_states(serializer.dump_states({("key", 1): b"a"})) == {("key", 1): b"A"}


def test_dead_letter_records_survive():
    records = [{"message": "é \udc80 \x00", "position": 2**60, "key": None}, {}]
    assert load_records(dump_records(records)) == records
