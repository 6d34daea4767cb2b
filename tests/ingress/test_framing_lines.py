"""Cutting bytes into lines."""

import re
import socket
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.processes import WALLAROO, run_to_end

import wallaroo
from wallaroo.ingress.framing import Framer, FramingError, LineFramer, framer_for

MOST = 12

streams = st.lists(st.sampled_from([b"\n", b"\r\n", b"\r", b"a", b"bc", b"\x00", b"\xff" * 10])).map(b"".join)


def oracle(stream):
    """Return the lines of a stream up to one that is too long, if there is one, and the bytes behind the last end."""
    *lines, rest = stream.split(b"\n")
    lines = [line.removesuffix(b"\r") for line in lines]
    good = [line for number, line in enumerate(lines) if max(map(len, lines[: number + 1])) <= MOST]
    if len(good) < len(lines) or len(rest.removesuffix(b"\r")) > MOST:
        return good, None
    return good, len(rest)


def fed(framer, stream, borders):
    found, begin = [], 0
    for end in [*sorted(borders), len(stream)]:
        try:
            found += framer.feed(stream[begin:end])
        except FramingError as error:
            return found + error.complete, None
        begin = max(begin, end)
    return found, framer.pending


@settings(max_examples=500, deadline=None)
@given(streams, st.lists(st.integers(0, 100), max_size=20))
def test_any_pieces_give_what_the_oracle_gives(stream, borders):
    assert fed(LineFramer(MOST), stream, borders) == oracle(stream)


def test_every_split_gives_the_same_lines():
    stream = b"one\r\n\n\r\nt\rwo\nrest"
    for split in range(len(stream) + 1):
        framer = LineFramer()
        assert framer.feed(stream[:split]) + framer.feed(stream[split:]) == [b"one", b"", b"", b"t\rwo"]
        assert framer.pending == 4
        assert framer.finish() == [b"rest"]
        assert (framer.pending, framer.finish()) == (0, [])


def test_a_line_that_is_too_long_is_reported_and_what_came_before_is_kept():
    for rest in (b"x" * 101, b"x" * 101 + b"\nmore\n"):
        with pytest.raises(FramingError, match=r"a line has 101 bytes or more, and 100 bytes? are accepted") as caught:
            LineFramer(100).feed(b"one\ntwo\n" + rest)
        assert caught.value.complete == [b"one", b"two"]
    assert LineFramer(100).feed(b"x" * 100 + b"\r\n") == [b"x" * 100]


def test_the_decoder_says_which_framing_it_is():
    class WithMethod:
        def framing(self):
            return "lines"

    class WithAttribute:
        framing = "lines"

    @wallaroo.decoder(framing="lines")
    def decode(bs):
        return bs

    @wallaroo.decoder
    def with_header(bs):
        return bs

    for decoder in (WithMethod(), WithAttribute(), decode):
        assert isinstance(framer_for(decoder), LineFramer)
    assert isinstance(framer_for(with_header), Framer)


def test_a_framing_that_raises_is_reported():
    class Odd:
        def framing(self):
            sys.exit("no")

    with pytest.raises(FramingError, match=r"the decoder's framing\(\) raised SystemExit: no"):
        framer_for(Odd())


def lines_decoder():
    # A nested function is sent by value: the child need not be able to import this file.
    @wallaroo.decoder(framing="lines")
    def decode(bs):
        return bs

    return decode


def test_lines_of_a_connection_and_a_last_one_without_end(make_ingress):
    ingress = make_ingress(decoder=lines_decoder())
    with ingress.connect() as connection:
        connection.sendall(b"one\r\n\ntwo\nthr")
        connection.sendall(b"ee")
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""  # In good order: all was accepted.
    assert ingress.messages() == [b"one", b"", b"two", b"three"]


def test_half_a_line_of_a_connection_that_breaks_does_not_count(make_ingress):
    ingress = make_ingress(decoder=lines_decoder())
    with ingress.connect() as connection:
        connection.sendall(b"one\ntw")
        ingress.wait_for_end(1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    assert "inside a message: 2 bytes of an unfinished message were dropped" in ingress.notice("was closed")
    assert ingress.messages() == [b"one"]


def test_a_line_that_is_too_long_closes_its_connection(make_ingress):
    ingress = make_ingress(decoder=lines_decoder(), max_message_size=10)
    with ingress.connect() as connection:
        connection.sendall(b"fine\n" + b"x" * 100)
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    told = ingress.notice("was closed")
    assert re.search(
        r"was closed: a line has \d+ bytes or more, and 10 bytes are accepted \(--max-message-size\)", told
    )
    assert ingress.messages() == [b"fine"]


def test_lines_of_wallaroo_send_arrive_unchanged(make_ingress):
    ingress = make_ingress(decoder=lines_decoder())
    address = "{}:{}".format(*ingress.addresses["numbers"])
    sent = b"\n".join(b"%d" % number for number in range(10_000))
    done = run_to_end(*WALLAROO, "send", address, "--framing", "lines", input=sent, text=False)
    assert done.stderr.startswith(b"sent 10,000 messages ")
    assert ingress.messages() == sent.split(b"\n")
