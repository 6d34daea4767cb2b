"""Frames, however they are cut, and whatever comes instead."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wallaroo.connectors.extension.protocol import (
    NO_PARTITION,
    Frame,
    Hello,
    Incoming,
    Messages,
    ProtocolError,
    checksum_after,
    frame,
    hello,
    pack_ask,
    pack_confirm,
    pack_durable,
    pack_messages,
    pack_part,
    pack_stands,
    unpack_ask,
    unpack_confirm,
    unpack_durable,
    unpack_messages,
    unpack_part,
    unpack_stands,
)

payloads = st.lists(st.binary(max_size=20), min_size=1, max_size=8)
numbers = st.integers(0, (1 << 64) - 1)
numbers_of_messages = st.integers(1, (1 << 63) - 10)
sequences = st.integers(-(1 << 63), (1 << 63) - 1)


@st.composite
def messages(draw):
    some = draw(payloads)
    names = draw(st.lists(st.text(max_size=8), max_size=3))
    if not names:
        return Messages(draw(numbers_of_messages), some, [], (), ())
    of_each = st.sampled_from([*range(len(names)), NO_PARTITION])
    return Messages(
        draw(numbers_of_messages), some, names, tuple(draw(of_each) for _ in some), tuple(draw(sequences) for _ in some)
    )


def body(data):
    """Return what follows the kind of a frame."""
    return data[5:]


@given(messages())
def test_messages_come_out_as_they_went_in(some):
    assert unpack_messages(body(pack_messages(some))) == some


@given(numbers, st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 32) - 1), numbers, payloads)
def test_parts_come_out_as_they_went_in(block, total, first, checksum, some):
    part = (block, total, first, checksum, some)
    assert unpack_part(body(pack_part(*part[:-1], list(map(len, some)), some))) == part


@given(payloads, payloads)
def test_the_checksum_of_messages_is_that_of_their_parts(some, more):
    before = checksum_after(0, list(map(len, some)), some)
    whole = checksum_after(0, list(map(len, some + more)), [b"".join(some + more)])
    assert checksum_after(before, list(map(len, more)), more) == whole != before


@given(numbers, st.integers(0, (1 << 32) - 1), st.none() | sequences, st.text())
def test_all_other_frames_come_out_as_they_went_in(number, count, sequence, name):
    assert unpack_confirm(body(pack_confirm(number, count))) == (number, count)
    assert unpack_durable(body(pack_durable(number))) == number
    assert unpack_stands(body(pack_stands(count, sequence))) == (count, sequence)
    assert unpack_ask(body(pack_ask(count, name))) == (count, name)


@given(st.lists(st.builds(frame, st.integers(0, 255), st.binary(max_size=30)), max_size=6), st.data())
def test_frames_cut_anywhere_are_put_together(frames, data):
    sent = hello("source", script="x") + b"".join(frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=10)))
    incoming, came = Incoming(100), []
    for low, high in zip([0, *cuts], [*cuts, len(sent)], strict=True):
        came += incoming.feed(sent[low:high])
    expected = [Frame(each[4], each[5:]) for each in frames]
    assert came == [Hello(1, {"role": "source", "script": "x"}), *expected]
    assert incoming.pending == 0


def test_frames_cut_at_every_byte():
    sent = hello("sink") + pack_confirm(7, 2) + pack_part(1, 1, 0, 0, [1], [b"x"])
    whole = Incoming(100).feed(sent)
    for cut in range(len(sent) + 1):
        incoming = Incoming(100)
        assert incoming.feed(sent[:cut]) + incoming.feed(sent[cut:]) == whole
    incoming = Incoming(100)
    assert [each for byte in sent for each in incoming.feed(bytes([byte]))] == whole


@given(st.binary(max_size=60), st.booleans())
def test_nonsense_is_refused_or_waited_for_and_nothing_else(data, after_hello):
    incoming = Incoming(100)
    if after_hello:
        incoming.feed(hello("source"))
    with contextlib.suppress(ProtocolError):
        incoming.feed(data)


@given(st.binary(max_size=80))
def test_bodies_that_make_no_sense_are_refused(data):
    for unpack in (unpack_messages, unpack_part, unpack_ask, unpack_confirm, unpack_durable, unpack_stands):
        with contextlib.suppress(ProtocolError):
            unpack(data)


@given(messages(), st.data())
def test_a_damaged_frame_of_messages_is_refused_or_has_as_many_messages_as_it_says(some, data):
    damaged = bytearray(body(pack_messages(some)))
    damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with contextlib.suppress(ProtocolError):
        found = unpack_messages(bytes(damaged))
        assert len(found.payloads) == int.from_bytes(damaged[8:12])
        assert all(index < len(found.names) or index == NO_PARTITION for index in found.partitions)


@pytest.mark.parametrize(("first", "count"), [(0, 1), (1, 0), ((1 << 63) - 1, 1), ((1 << 64) - 1, 2), (1 << 63, 1)])
def test_numbers_that_no_script_reaches_are_refused(first, count):
    with pytest.raises(ProtocolError, match="numbers them as no script does"):
        unpack_messages(body(pack_messages(Messages(first, [b""] * count, [], (), ()))))


def test_what_came_before_nonsense_is_kept():
    with pytest.raises(ProtocolError, match="a frame of 0 bytes") as refused:
        Incoming(100).feed(hello("sink") + frame(9, b"x") + bytes(4) + b"x")
    assert refused.value.complete == [Hello(1, {"role": "sink"}), Frame(9, b"x")]
