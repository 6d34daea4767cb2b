"""Cutting bytes into messages."""

from __future__ import annotations

import struct
import tracemalloc

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
def test_a_bad_length_is_reported_and_what_came_before_is_kept(decoder, length, words):
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
def test_a_length_that_is_no_int_is_reported(result, words):
    decoder = ClassDecoder()
    decoder.payload_length = lambda bs: result
    with pytest.raises(FramingError, match=words):
        Framer(decoder).feed(b"1234")


@pytest.mark.parametrize(
    ("sign", "zeros", "words"),
    [
        (1, 30, "a message length of 2**99 bytes, more than"),
        # Longer than Python is willing to write out.
        (1, 5000, "a message length of 2**16609 bytes, more than"),
        (-1, 5000, "negative message length, -2**16609"),
    ],
)
def test_an_enormous_length_is_reported_briefly(sign, zeros, words):
    decoder = ClassDecoder()
    decoder.payload_length = lambda bs: sign * 10**zeros
    with pytest.raises(FramingError) as caught:
        Framer(decoder).feed(b"1234")
    assert words in caught.value.reason


def test_a_decoder_that_raises_is_reported():
    decoder = ClassDecoder()
    decoder.payload_length = int
    with pytest.raises(FramingError, match=r"payload_length\(\) raised ValueError: invalid literal") as caught:
        Framer(decoder).feed(b"0002okwhat")
    assert caught.value.complete == [b"ok"]


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), KeyError("name")])
def test_a_decoder_that_would_end_the_process_affects_one_connection(error):
    decoder = ClassDecoder()

    def payload_length(bs):
        raise error

    decoder.payload_length = payload_length
    with pytest.raises(FramingError, match=rf"payload_length\(\) raised {type(error).__name__}"):
        Framer(decoder).feed(b"1234")


def test_a_decoder_without_header_and_length_does_not_loop_for_ever():
    decoder = FixedSizeDecoder()
    decoder.payload_length = lambda bs: 0
    with pytest.raises(FramingError, match="no header"):
        Framer(decoder).feed(b"x")


@pytest.mark.parametrize("result", [-1, "4", None])
def test_a_bad_header_length_is_reported_at_once(result):
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


HEADERS = [">i", ">I", ">h", "<H", "b", "<Q"]
MOST = 50


def decoder_for(fmt, *, with_struct):
    class Decoder:
        def header_length(self):
            return struct.calcsize(fmt)

        def payload_length(self, bs):
            return struct.unpack(fmt, bs)[0]

    if with_struct:
        Decoder.length_struct = struct.Struct(fmt)
    return Decoder()


def outcome(fmt, stream):
    """Return the payloads in front of the first bad header, what is wrong with it, and the bytes after them."""
    payloads = []
    header = struct.calcsize(fmt)
    while len(stream) >= header:
        (length,) = struct.unpack(fmt, stream[:header])
        if length < 0:
            return payloads, "negative", None
        if length > MOST:
            return payloads, "more than", None
        if len(stream) < header + length:
            break
        payloads.append(stream[header : header + length])
        stream = stream[header + length :]
    return payloads, None, len(stream)


def fed(framer, stream, borders):
    """Feed a stream in pieces; return what came out of it in the shape of `outcome`."""
    payloads = []
    begin = 0
    for end in [*sorted(borders), len(stream)]:
        try:
            payloads += framer.feed(stream[begin:end])
        except FramingError as error:
            payloads += error.complete
            return payloads, next(words for words in ("negative", "more than") if words in error.reason), None
        begin = max(begin, end)
    return payloads, None, framer.pending


@st.composite
def streams(draw):
    """Return a header's format and frames of it, of which a few bytes were changed, dropped or put in."""
    fmt = draw(st.sampled_from(HEADERS))
    payloads = draw(st.lists(st.binary(max_size=MOST), max_size=12))
    stream = bytearray(b"".join(struct.pack(fmt, len(payload)) + payload for payload in payloads))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(stream)))
        stream[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return fmt, bytes(stream)


@settings(max_examples=300, deadline=None)
@given(streams(), st.booleans(), st.lists(st.integers(0, 300), max_size=20))
def test_corrupted_streams_give_the_messages_in_front_of_the_damage(made, with_struct, borders):
    fmt, stream = made
    framer = Framer(decoder_for(fmt, with_struct=with_struct), max_message_size=MOST)
    assert fed(framer, stream, borders) == outcome(fmt, stream)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(HEADERS), st.booleans(), st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=20))
def test_garbage_is_refused_where_the_oracle_refuses_it(fmt, with_struct, stream, borders):
    framer = Framer(decoder_for(fmt, with_struct=with_struct), max_message_size=MOST)
    assert fed(framer, stream, borders) == outcome(fmt, stream)


@pytest.mark.parametrize("with_struct", [False, True])
@pytest.mark.parametrize(("fmt", "bad"), [(">i", -1), (">i", MOST + 1), (">I", 0xFFFFFFFF), ("<Q", 1 << 63)])
def test_every_two_split_points_in_front_of_and_inside_a_bad_header(fmt, bad, with_struct):
    stream = b"".join(struct.pack(fmt, len(each)) + each for each in (b"one", b"", b"two")) + struct.pack(fmt, bad)
    for first in range(len(stream) + 1):
        for second in range(first, len(stream) + 1):
            framer = Framer(decoder_for(fmt, with_struct=with_struct), max_message_size=MOST)
            assert fed(framer, stream, [first, second]) == outcome(fmt, stream)


class Unprintable:
    def __repr__(self):
        raise RuntimeError("no words for it")


class UnprintableError(Exception):
    def __str__(self):
        raise RuntimeError("no words for it")


class OddInt(int):
    """A number that compares unlike its value."""

    def __le__(self, other):
        return True

    __ge__ = __lt__ = __gt__ = __le__


odd_results = st.one_of(
    st.integers(-5, 80),
    st.integers(-5, 80).map(OddInt),
    st.integers(),
    st.sampled_from([10**5000, -(10**5000), "4\n5", "x" * 10_000, 3.0, None, True, False, b"", [1], Unprintable()]),
)
odd_errors = st.sampled_from(
    [
        ValueError("two\nlines"),
        ValueError("x" * 10_000),
        SystemExit(1),
        KeyboardInterrupt(),
        GeneratorExit(),
        UnprintableError(),
        MemoryError(),
    ]
)


def accepted(header_length, answers, stream):
    """Return the payloads that a decoder with these answers lets through, and whether it is then at its end."""
    payloads = []
    answers = iter(answers)
    while stream and len(stream) >= header_length:
        answer = next(answers, 1)
        fits = isinstance(answer, int) and not isinstance(answer, bool) and int(answer) in range(MOST + 1)
        if not fits or not header_length + int(answer):
            return payloads, True
        end = header_length + int(answer)
        if len(stream) < end:
            break
        payloads.append(stream[header_length:end])
        stream = stream[end:]
    return payloads, False


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 3), st.lists(st.one_of(odd_results, odd_errors), min_size=1), st.lists(st.binary(max_size=40)))
def test_any_failure_of_a_decoder_is_a_framing_error_in_one_line(header_length, results, pieces):
    answers = iter(results)

    class Decoder:
        def payload_length(self, bs):
            answer = next(answers, 1)
            if isinstance(answer, BaseException):
                raise answer
            return answer

        def header_length(self):
            return header_length

    framer = Framer(Decoder(), max_message_size=MOST)
    found = []
    refused = None
    for piece in pieces:
        try:
            found += framer.feed(piece)
        except FramingError as error:
            found += error.complete
            refused = error.reason
            break
        assert framer.pending <= header_length + MOST
    assert (found, refused is not None) == accepted(header_length, results, b"".join(pieces))
    assert refused is None or ("\n" not in refused and len(refused) < 400)


@given(st.one_of(st.integers(max_value=-1), st.booleans(), st.floats(), st.none(), st.text(), st.just(Unprintable())))
def test_a_header_length_of_none_is_reported(result):
    decoder = ClassDecoder()
    decoder.header_length = lambda: result
    with pytest.raises(FramingError, match=r"header_length\(\) returned"):
        Framer(decoder)


def test_a_header_length_that_raises_is_reported():
    decoder = ClassDecoder()
    decoder.header_length = {}.popitem
    with pytest.raises(FramingError, match=r"header_length\(\) raised KeyError: .*empty"):
        Framer(decoder)


def test_a_slow_message_takes_no_more_memory_than_its_bytes():
    size = 100_000
    framer = Framer(StructDecoder())
    framer.feed(struct.pack(">i", size))
    piece = b"ab"
    tracemalloc.start()
    try:
        for _ in range(size // 2 - 1):
            framer.feed(bytes(bytearray(piece)))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 1.5 * size
    assert framer.feed(piece) == [piece * (size // 2)]
