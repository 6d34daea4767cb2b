"""What is found wrong with decoders and encoders."""

import pytest

import wallaroo
from wallaroo.connectors.config_checks import decoder_mistakes, encoder_mistakes, message_decoder_mistakes


@wallaroo.decoder
def decode(bs):
    return bs


@wallaroo.encoder
def encode(data):
    return data


class GoodDecoder:
    def header_length(self):
        return 4

    def payload_length(self, bs):
        return len(bs)

    def decode(self, bs):
        return bs


def decoder_with(**methods):
    return type("Odd", (GoodDecoder,), methods)()


class OnlyDecodes:
    def decode(self, bs):
        return bs


class LinesByAttribute(OnlyDecodes):
    framing = "lines"


class LinesByMethod(OnlyDecodes):
    def framing(self):
        return "lines"


class OtherFraming(OnlyDecodes):
    framing = "json"


class BrokenFraming(OnlyDecodes):
    def framing(self):
        raise ZeroDivisionError("oh")


class LinesWithoutDecode:
    framing = "lines"


class GoodEncoder:
    def encode(self, data):
        return data


class EncodesNothing:
    def encode(self):
        return b""


def plain(bs):
    return bs


def broken_header_length(_self):
    raise ZeroDivisionError("oh")


def test_good_codecs():
    assert [*decoder_mistakes(decode), *decoder_mistakes(GoodDecoder())] == []
    assert [*decoder_mistakes(LinesByAttribute()), *decoder_mistakes(LinesByMethod())] == []
    assert [*encoder_mistakes(encode), *encoder_mistakes(GoodEncoder())] == []


@pytest.mark.parametrize(
    ("decoder", "expected"),
    [
        (GoodDecoder, "the decoder is the class GoodDecoder: write GoodDecoder() to make one"),
        (plain, "the decoder is the plain function plain: write @wallaroo.decoder above it"),
        (OnlyDecodes(), "OnlyDecodes(...) has no method header_length and no payload_length"),
        (encode, "the decoder encode has no method header_length, payload_length and no decode"),
        (OtherFraming(), "OtherFraming(...) has no method header_length and no payload_length: a decoder is"),
        (OtherFraming(), 'or one with framing = "lines" and decode(bs)'),
        (BrokenFraming(), "framing() of the decoder BrokenFraming(...) failed with ZeroDivisionError: oh"),
        (LinesWithoutDecode(), "LinesWithoutDecode(...) has no method decode:"),
        (decoder_with(header_length=4), "Odd(...) has no method header_length:"),
        (decoder_with(header_length=lambda _: 0), "must return a whole number of bytes from 1 to 64"),
        (decoder_with(header_length=lambda _: 65), "it returned 65 (an int)"),
        (decoder_with(header_length=lambda _: True), "it returned True (a bool)"),
        (decoder_with(header_length=lambda _: "4"), "it returned '4' (a str)"),
        (decoder_with(header_length=broken_header_length), "Odd(...) failed with ZeroDivisionError: oh"),
        (decoder_with(header_length=lambda _, bs: 4), "failed with TypeError"),
        (decoder_with(decode=lambda _: 4), "decode of the decoder Odd(...) must allow 1 argument"),
        (decoder_with(payload_length=lambda _: 4), "payload_length of the decoder Odd(...) must allow 1"),
    ],
)
def test_decoders_with_mistakes(decoder, expected):
    (mistake,) = decoder_mistakes(decoder)
    assert expected in mistake


@pytest.mark.parametrize(
    ("encoder", "expected"),
    [
        (GoodEncoder, "the encoder is the class GoodEncoder: write GoodEncoder() to make one"),
        (plain, "the encoder is the plain function plain: write @wallaroo.encoder above it"),
        (decode, "the encoder decode has no method encode"),
        (EncodesNothing(), "encode of the encoder EncodesNothing(...) must allow 1 argument, as in encode(data)"),
    ],
)
def test_encoders_with_mistakes(encoder, expected):
    (mistake,) = encoder_mistakes(encoder)
    assert expected in mistake


@wallaroo.decoder(header_length=9, length_fmt=">I")
def decode_keyed(bs, message):
    return message.key, bs


class DecodesKeyed:
    def decode(self, bs, message):
        return message.key, bs


class DecodesTooMuch:
    def decode(self, bs, message, more):
        return bs


@pytest.mark.parametrize(
    "decoder",
    [
        decode,
        decode_keyed,
        DecodesKeyed(),
        OnlyDecodes(),
        LinesByMethod(),
        wallaroo.decoder(bytes.decode),
        wallaroo.decoder(header_length=9, length_fmt=">I")(plain),
    ],
)
def test_messages_that_come_one_by_one_need_no_header(decoder):
    assert list(message_decoder_mistakes(decoder)) == []


@pytest.mark.parametrize(
    ("decoder", "expected"),
    [
        (GoodDecoder, "the decoder is the class GoodDecoder: write GoodDecoder() to make one"),
        (plain, "the decoder is the plain function plain: write @wallaroo.decoder above it"),
        (encode, "the decoder encode has no method decode: a decoder is a function with @wallaroo.decoder"),
        (DecodesTooMuch(), "decode of the decoder DecodesTooMuch(...) must allow 1 argument, as in decode(bs)"),
        (wallaroo.decoder(lambda: 1), "your function must allow 1 argument"),
    ],
)
def test_decoders_of_messages_with_mistakes(decoder, expected):
    (mistake,) = message_decoder_mistakes(decoder)
    assert expected in mistake


@pytest.mark.parametrize("decoder", [decode_keyed, DecodesKeyed()])
def test_only_messages_from_kafka_have_a_second_argument(decoder):
    (mistake,) = decoder_mistakes(decoder)
    assert "takes a second argument, which only Kafka sources have: leave it out, as in decode(bs)" in mistake
