"""How `@decoder` describes framing."""

import struct

import pytest

import wallaroo


@wallaroo.decoder
def bare(bs):
    return bs


@wallaroo.decoder()
def with_parentheses(bs):
    return bs


@wallaroo.decoder(header_length=4, length_fmt=">I")
def spelled_out(bs):
    return bs


@wallaroo.decoder(2, "<H")
def positional(bs):
    return bs.decode()


@pytest.mark.parametrize("decoder", [bare, with_parentheses, spelled_out])
def test_the_default_header_is_a_big_endian_32_bit_number(decoder):
    assert decoder.header_length() == 4
    assert decoder.payload_length(b"\x00\x00\x01\x02") == 258
    assert decoder.length_struct.format == ">I"


def test_framing_follows_the_arguments():
    assert positional.header_length() == 2
    assert positional.payload_length(b"\x02\x01") == 258
    assert isinstance(positional.length_struct, struct.Struct)
    assert positional.decode(b"abc") == "abc"


def test_lines_have_no_header():
    @wallaroo.decoder(framing="lines")
    def decode(bs):
        return bs.decode()

    assert decode.framing == "lines"
    assert (decode(b"abc"), decode.decode(b"abc"), decode.name()) == ("abc", "abc", "decode")
    assert not hasattr(decode, "header_length")
    config = wallaroo.TCPSourceConfig("127.0.0.1", 7010, decode)
    wallaroo.ApplicationBuilder("Lines").new_pipeline("lines", config).to(wallaroo.computation("same")(str)).build()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"framing": "line"}, "framing must be \"lines\", where each message ends with a newline; got 'line' (a str)"),
        ({"framing": None}, "got None"),
        ({"framing": "lines", "header_length": 4}, 'with framing="lines" messages have no header'),
        ({"framing": "lines", "length_fmt": ">I"}, 'with framing="lines" messages have no header'),
    ],
)
def test_invalid_framings_are_refused(arguments, expected):
    config = wallaroo.TCPSourceConfig("127.0.0.1", 7010, wallaroo.decoder(**arguments)(bytes.decode))
    with pytest.raises(wallaroo.WallarooParameterError) as refused:
        wallaroo.ApplicationBuilder("Lines").new_pipeline("lines", config).build()
    assert expected in str(refused.value)


def test_padding_around_the_length_is_part_of_the_header():
    decoder = wallaroo.decoder(header_length=6, length_fmt=">xxI")(lambda bs: bs)
    assert decoder.payload_length(b"\xff\xff\x00\x00\x00\x07") == 7


@pytest.mark.parametrize(
    ("header_length", "length_fmt", "expected"),
    [
        (8, ">I", "header_length is 8, but length_fmt '>I' describes 4 bytes"),
        (4, ">HH", "must describe one whole number"),
        (4, ">f", "must describe one whole number"),
        (1, "?", "must describe one whole number"),
        (4, "4s", "must describe one whole number"),
        (4, "4x", "must describe one whole number"),
        (4, "nonsense", "must be a format of the module struct; got 'nonsense' (a str)"),
        (4, 17, "must be a format of the module struct; got 17 (an int)"),
        ("4", ">I", "must be a whole number of bytes, 1 or more; got '4' (a str)"),
        (0, "", "must be a whole number of bytes, 1 or more; got 0 (an int)"),
        (True, "b", "must be a whole number of bytes, 1 or more; got True (a bool)"),
    ],
)
def test_headers_that_hold_no_length_are_refused(header_length, length_fmt, expected):
    def decode(bs):
        return bs

    decoder = wallaroo.decoder(header_length=header_length, length_fmt=length_fmt)(decode)
    builder = wallaroo.ApplicationBuilder("app").new_pipeline("p", wallaroo.TCPSourceConfig("127.0.0.1", "0", decoder))
    with pytest.raises(wallaroo.WallarooParameterError) as refused:
        builder.build()
    assert str(refused.value).startswith("The application 'app' has a mistake:\n  - pipeline 'p': ")
    assert expected in str(refused.value)
    assert "@wallaroo.decoder on decode" in str(refused.value)
    assert 'write @wallaroo.decoder(header_length=4, length_fmt=">I").' in str(refused.value)
