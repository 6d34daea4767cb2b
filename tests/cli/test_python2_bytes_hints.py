"""Comparisons of bytes with text, about which Python 3 does not warn."""

import ast

import pytest

from wallaroo.cli.python2_bytes_hints import hints_in

DECORATED = "@wallaroo.decoder(header_length=4, length_fmt='>I')\ndef decode(bs):\n"
PLAIN = "@decoder\ndef decode(payload):\n    bs = payload\n"
CLASS = "class Decoder:\n    def header_length(self): return 4\n    def decode(self, bs):\n"


def hints(body, start=DECORATED, indent="    "):
    lines = "".join(f"{indent}{line}\n" for line in body.splitlines())
    return [text for _, text in hints_in(ast.parse(start + lines))]


NEVER = "`{}` is never true: bytes do not equal text in Python 3. Write {}, or decode the bytes first."
NUMBER = "`{}` is never true: an item of bytes is a number in Python 3. Take a slice such as bs[0:1], and write {}."


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return bs == 'quit'", NEVER.format("bs == 'quit'", "b'quit'")),
        ("return 'quit' == bs", NEVER.format("'quit' == bs", "b'quit'")),
        ("if bs[:3] == 'BUY': return 1", NEVER.format("bs[:3] == 'BUY'", "b'BUY'")),
        ("return bs[4:8].strip() == 'BUY'", NEVER.format("bs[4:8].strip() == 'BUY'", "b'BUY'")),
        ("side = bs[:3]\nreturn side == 'BUY'", NEVER.format("side == 'BUY'", "b'BUY'")),
        ("a, b = bs.split(b' ')\nreturn a == 'x'", NEVER.format("a == 'x'", "b'x'")),
        ("for word in bs.split():\n    if word == 'x': return 1", NEVER.format("word == 'x'", "b'x'")),
        ("return bs.split()[0] in ('a', 'b')", NEVER.format("bs.split()[0] in ('a', 'b')", "b'a'")),
        ("return bs[0] == 'a'", NUMBER.format("bs[0] == 'a'", "b'a'")),
        ("return [c for c in bs if c == 'a']", NUMBER.format("c == 'a'", "b'a'")),
        ("return bs != 'a'", NEVER.format("bs != 'a'", "b'a'").replace("never", "always")),
        ("return bs[:1] not in ['a']", NEVER.format("bs[:1] not in ['a']", "b'a'").replace("never", "always")),
    ],
)
def test_bytes_and_text_are_found(body, expected):
    assert hints(body) == [expected]
    assert hints(body, PLAIN) == [expected]
    assert hints(body, CLASS, "        ") == [expected]


@pytest.mark.parametrize(
    "body",
    [
        "return bs == b'quit'",
        "text = bs.decode()\nreturn text == 'quit'",
        "return bs.decode() == 'quit'",
        "bs = bs.decode()\nreturn bs == 'quit'",
        "bs = bs.decode()\nside = bs[:3]\nreturn side == 'BUY'",
        "side = bs[:3]\nif side:\n    side = 'BUY'\nreturn side == 'BUY'",
        "return bs[0] == 65",
        "return len(bs) == 3 and other == 'a'",
        "return bs.hex() == 'ff'",
        "return (lambda bs: bs == 'a')('a')",
        "with open('f') as bs:\n    return bs == 'a'",
        "return bs < 'a'",  # This one raises an error of its own.
    ],
)
def test_what_is_or_may_be_right_is_left_alone(body):
    assert hints(body) == []


@pytest.mark.parametrize(
    "start",
    ["def other(bs):\n", "@wallaroo.encoder\ndef encode(bs):\n", "class Other:\n  def decode(self, bs):\n"],
)
def test_what_is_not_certainly_given_bytes_is_left_alone(start):
    assert hints("return bs == 'a'", start) == []


CALLING = f"{DECORATED}    return parse(bs)\n\n"


@pytest.mark.parametrize(
    "start",
    [
        "@experimental.stream_message_decoder\ndef decode(bs):\n",
        f"{CALLING}def parse(bs):\n",
        f"{CALLING}def parse(bs):\n    return further(1, bs[1:])\n\ndef further(one, bs):\n",
        f"{DECORATED}    if parse(bs.strip()): return parse(bs)\n\ndef parse(bs):\n",
    ],
)
def test_what_decoders_call_with_bytes_is_looked_at(start):
    assert hints("return bs == 'quit'", start) == [NEVER.format("bs == 'quit'", "b'quit'")]


@pytest.mark.parametrize(
    "start",
    [
        f"{DECORATED}    return parse(bs.decode())\n\ndef parse(bs):\n",
        f"{DECORATED}    return parse(bs) or parse('text')\n\ndef parse(bs):\n",
        f"{CALLING}parse('text')\n\ndef parse(bs):\n",
        f"{CALLING}also = [parse]\n\ndef parse(bs):\n",
        f"{CALLING}@anything\ndef parse(bs):\n",
        f"{DECORATED}    return parse(other=bs)\n\ndef parse(bs):\n",
    ],
)
def test_what_may_also_be_called_with_something_else_is_left_alone(start):
    assert hints("return bs == 'quit'", start) == []


def test_the_line_is_reported():
    assert [line for line, _ in hints_in(ast.parse(DECORATED + "    x = 1\n    return bs == 'a'\n"))] == [4]
