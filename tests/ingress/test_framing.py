"""Cutting bytes into messages."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wallaroo.ingress.framing import MAX_MESSAGE_SIZE, Framer, FramingError


class ClassDecoder:
    """Written as in Wallaroo's documentation; keeps the headers it was asked about."""

    def __init__(self):
        self.asked = []

    def header_length(self):
        return 4

    def payload_length(self, bs):
        assert type(bs) is bytes
        self.asked.append(bs)
        return struct.unpack(">i", bs)[0]


class StructDecoder(ClassDecoder):
    length_struct = struct.Struct(">i")


class FixedSizeDecoder:
    """Messages of three bytes without a header."""

    def header_length(self):
        return 0

    def payload_length(self, bs):
        return 3


DECODERS = [ClassDecoder, StructDecoder]
payload_lists = st.lists(st.binary(max_size=30), max_size=15)


def frames(payloads):
    return b"".join(struct.pack(">i", len(payload)) + payload for payload in payloads)


def oracle(stream):
    """Return the payloads of complete frames and the number of bytes after them, the simple way."""
    payloads = []
    while len(stream) >= 4:
        length = int.from_bytes(stream[:4], "big")
        if len(stream) < 4 + length:
            break
        payloads.append(stream[4 : 4 + length])
        stream = stream[4 + length :]
    return payloads, len(stream)


@pytest.mark.parametrize("decoder", DECODERS)
def test_every_split_gives_the_same_messages(decoder):
    payloads = [b"hello", b"", b"x", b"", b"world" * 3]
    stream = frames(payloads) + b"\0\0\0\7tail"
    for split in range(len(stream) + 1):
        framer = Framer(decoder())
        found = framer.feed(stream[:split])
        assert (found, framer.pending) == oracle(stream[:split])
        assert found + framer.feed(stream[split:]) == payloads
        assert framer.pending == 8


@pytest.mark.parametrize("decoder", DECODERS)
@settings(max_examples=200, deadline=None)
@given(payload_lists, st.lists(st.integers(0, 200), max_size=30), st.binary(max_size=3))
def test_any_pieces_give_what_the_oracle_gives(decoder, payloads, splits, tail):
    stream = frames(payloads) + tail
    framer = Framer(decoder())
    found = []
    fed = 0
    for border in [*sorted(splits), len(stream)]:
        found += framer.feed(stream[fed:border])
        fed = max(fed, border)
        assert (found, framer.pending) == oracle(stream[:fed])


@pytest.mark.parametrize("decoder", DECODERS)
def test_one_byte_at_a_time(decoder):
    payloads = [b"ab", b"", b"cde"]
    framer = Framer(decoder())
    assert [payload for byte in frames(payloads) for payload in framer.feed(bytes([byte]))] == payloads


def test_the_decoder_is_asked_once_for_each_frame():
    decoder = ClassDecoder()
    framer = Framer(decoder)
    for byte in frames([b"long enough", b"", b"x"]):
        framer.feed(bytes([byte]))
    assert len(decoder.asked) == 3


def test_a_decoder_with_length_struct_is_not_asked():
    decoder = StructDecoder()
    assert Framer(decoder).feed(frames([b"x"] * 10)) == [b"x"] * 10
    assert decoder.asked == []


def test_a_length_struct_that_is_not_the_whole_header_is_not_used():
    decoder = ClassDecoder()
    decoder.length_struct = struct.Struct(">h")
    assert Framer(decoder).feed(frames([b"x"] * 10)) == [b"x"] * 10
    assert len(decoder.asked) == 10


def test_messages_without_header():
    framer = Framer(FixedSizeDecoder())
    assert framer.feed(b"onetwothr") == [b"one", b"two", b"thr"]
    assert framer.feed(b"four") == [b"fou"]
    assert framer.pending == 1
    assert framer.feed(b"xy") == [b"rxy"]


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize(
    ("length", "words"),
    [(-1, "negative message length, -1"), (101, "message length of 101 bytes, more than the 100")],
)
def test_a_bad_length_is_told_and_what_came_before_is_kept(decoder, length, words):
    framer = Framer(decoder(), max_message_size=100)
    bad = frames([b"one", b"two"]) + struct.pack(">i", length) + b"rest"
    with pytest.raises(FramingError, match=words) as caught:
        framer.feed(bad)
    assert caught.value.complete == [b"one", b"two"]
    assert Framer(decoder(), max_message_size=100).feed(frames([bytes(100)])) == [bytes(100)]


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ("5", "returned '5', which is not an int"),
        (2.0, "not an int"),
        (None, "not an int"),
        (True, "not an int"),
    ],
)
def test_a_length_that_is_no_int_is_told(result, words):
    decoder = ClassDecoder()
    decoder.payload_length = lambda bs: result
    with pytest.raises(FramingError, match=words):
        Framer(decoder).feed(b"1234")


def test_a_decoder_that_raises_is_told():
    decoder = ClassDecoder()
    decoder.payload_length = int
    with pytest.raises(FramingError, match=r"payload_length\(\) raised ValueError: invalid literal") as caught:
        Framer(decoder).feed(b"0002okwhat")
    assert caught.value.complete == [b"ok"]


def test_a_decoder_without_header_and_length_does_not_loop_for_ever():
    decoder = FixedSizeDecoder()
    decoder.payload_length = lambda bs: 0
    with pytest.raises(FramingError, match="no header"):
        Framer(decoder).feed(b"x")


@pytest.mark.parametrize("result", [-1, "4", None])
def test_a_bad_header_length_is_told_at_once(result):
    decoder = ClassDecoder()
    decoder.header_length = lambda: result
    with pytest.raises(FramingError, match=r"header_length\(\) returned"):
        Framer(decoder)


def test_a_large_frame_in_many_pieces():
    payload = bytes(range(256)) * 40_000
    stream = frames([payload])
    framer = Framer(StructDecoder())
    found = [message for low in range(0, len(stream), 1000) for message in framer.feed(stream[low : low + 1000])]
    assert found == [payload]
    assert len(payload) < MAX_MESSAGE_SIZE
