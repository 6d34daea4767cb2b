"""Objects to bytes and back."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

import wallaroo


@dataclass
class WordCount:
    word: str
    count: int


def test_objects_are_restored_equal():
    assert wallaroo.deserialize(wallaroo.serialize(WordCount("hello", 2))) == WordCount("hello", 2)


@given(st.recursive(st.none() | st.integers() | st.text() | st.binary(), st.lists))
def test_plain_data_is_restored_equal(data):
    serialized = wallaroo.serialize(data)
    assert isinstance(serialized, bytes)
    assert wallaroo.deserialize(serialized) == data
