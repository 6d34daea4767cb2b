"""A program with the mistakes that mypy finds, each with the kind of error beside it. It is never run."""

from __future__ import annotations

import wallaroo
from wallaroo import testing


@wallaroo.decoder
def decode(bs: bytes) -> str:
    return bs.decode()


@wallaroo.encoder
def encode(text: str) -> bytes:
    return text.encode()


@wallaroo.encoder
def encode_length(text: str) -> int:
    return len(text)


@wallaroo.decoder
def decode_keyed(bs: bytes, message: wallaroo.KafkaMessage) -> bytes | None:
    return message.key


@wallaroo.encoder
def encode_keyed(text: str) -> tuple[str, str]:
    return text, text


@wallaroo.computation("upper")
def upper(text: str) -> str:
    return text.upper()


@wallaroo.state_computation("count")
def count(word: str, state: list[str]) -> tuple[int, bool]:
    state.append(word)
    return len(state), True


@wallaroo.state_computation("forgotten")  # error: type-var
def forgets_to_save(word: str, state: list[str]) -> tuple[str, int]:
    return word, len(state)


@wallaroo.computation_multi("no list")  # error: type-var
def gives_no_list(text: str) -> str:
    return text


@wallaroo.decoder  # error: arg-type
def decode_text(text: str) -> str:
    return text


def plain(text: str) -> str:
    return text


class Sized:
    def __init__(self, size: int) -> None:
        self.size = size


def application_setup(args: list[str]) -> wallaroo.Application:
    source = wallaroo.TCPSourceConfig("127.0.0.1", "7010", decode)
    sink = wallaroo.TCPSinkConfig("127.0.0.1", "7002", encode)
    wallaroo.TCPSinkConfig("127.0.0.1", "7002", encode_length)  # error: arg-type
    wallaroo.TCPSourceConfig("127.0.0.1", "7010", decode_keyed)  # error: call-overload
    wallaroo.TCPSinkConfig("127.0.0.1", "7002", encode_keyed)  # error: arg-type
    wallaroo.KafkaSourceConfig("words", "127.0.0.1:9092", "Warn", decode_keyed)  # error: arg-type
    ab = wallaroo.ApplicationBuilder("Wrong")
    ab.new_pipeline("words", sink)  # error: arg-type
    ab.new_pipeline("words")  # error: call-arg
    ab.to(plain)  # error: arg-type
    ab.to(count)  # error: arg-type
    ab.to_stateful(upper, list, "words")  # error: arg-type
    ab.to_stateful(count, dict, "words")  # error: arg-type
    ab.to_stateful(count, Sized, "words")  # error: arg-type
    ab.to_stateful(count, list, 5)  # error: call-overload
    ab.to_sink(source)  # error: arg-type
    words = wallaroo.source("words", source)
    words.key_by(plain)  # error: arg-type
    words.to(count)  # error: arg-type
    words.merge(ab)  # error: arg-type
    upper(5)  # error: arg-type
    count("word")  # error: call-arg
    return ab.to_sink(sink)  # error: return-value


def first_output() -> str:
    return testing.run(application_setup, [], encoded=True)[0]  # error: return-value


def outputs() -> list[str]:
    return testing.run_all(application_setup, [])  # error: return-value
