"""Messages, states and dead letters as bytes, and back."""

import pytest

from wallaroo.engine.transport.dead_letter_record import dump_records, load_records
from wallaroo.engine.transport.serializer import Serializer

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
