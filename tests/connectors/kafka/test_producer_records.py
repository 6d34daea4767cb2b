"""What encoders for Kafka may return, and how it travels."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wallaroo.connectors.kafka.producer_records import EncoderResultError, MessageTooLargeError, packer, records, unpack
from wallaroo.connectors.output_block import OutputBlock

ANY = -1
PACK = packer(100)


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("encoded", "record"),
    [
        (b"value", (b"value", None, ANY)),
        ("é", ("é".encode(), None, ANY)),
        (b"", (b"", None, ANY)),
        (bytearray(b"value"), (b"value", None, ANY)),
        (memoryview(b"value"), (b"value", None, ANY)),
        (Text("value"), (b"value", None, ANY)),
        ((b"value", None), (b"value", None, ANY)),
        (("value", "key"), (b"value", b"key", ANY)),
        (("value", b""), (b"value", b"", ANY)),
        ((b"", b"key"), (b"", b"key", ANY)),
        ((None, "key"), (None, b"key", ANY)),
        ((None, b""), (None, b"", ANY)),
        ((Text("value"), bytearray(b"key")), (b"value", b"key", ANY)),
        (("value", "key", None), (b"value", b"key", ANY)),
        (("value", "key", 0), (b"value", b"key", 0)),
        (("value", None, 7), (b"value", None, 7)),
        ((None, "key", 7), (None, b"key", 7)),
    ],
)
def test_what_an_encoder_may_return(encoded, record):
    assert unpack(PACK(encoded)) == record


@pytest.mark.parametrize(
    "encoded",
    [7, ["value", "key"], (), ("value",), ("a", "b", 1, 2), (None, None), (7, "key"), ("value", 7), {"value": "key"}],
)
def test_values_that_cannot_be_sent_are_refused(encoded):
    with pytest.raises(EncoderResultError, match="expected "):
        PACK(encoded)


@pytest.mark.parametrize("partition", [-1, 1.0, True, "0", 1 << 31])
def test_what_is_no_partition(partition):
    with pytest.raises(EncoderResultError, match="expected a whole number, 0 or more, for the partition"):
        PACK(("value", "key", partition))


def test_value_and_key_count_for_the_size():
    assert unpack(PACK(("v" * 60, "k" * 40))).key == b"k" * 40
    for encoded in (("v" * 61, "k" * 40), "v" * 101, (None, "k" * 101)):
        with pytest.raises(MessageTooLargeError, match="value and key have 101 bytes; max_message_size is 100"):
            PACK(encoded)


PARTS = st.one_of(st.binary(max_size=40), st.text(max_size=10))
ENCODED = st.one_of(PARTS, st.tuples(PARTS, st.none() | PARTS), st.tuples(st.none(), PARTS, st.integers(0, 99)))


@given(st.lists(st.lists(ENCODED)))
def test_messages_of_a_block_come_out_as_they_went_in(bodies):
    packed = [[PACK(encoded) for encoded in body] for body in bodies]
    lengths = [array("I", map(len, body)) for body in packed]
    block = OutputBlock(3, [memoryview(b"".join(body)) for body in packed], lengths=lengths)
    assert list(records(block)) == [unpack(message) for body in packed for message in body]
