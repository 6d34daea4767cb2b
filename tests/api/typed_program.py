"""A program with types everywhere, of all kinds of parts: mypy has nothing to say about it."""

from __future__ import annotations

import struct

import wallaroo
from wallaroo import testing


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(bs: bytes) -> str:
    return bs.decode()


@wallaroo.decoder
def decode_number(bs: bytes) -> int | None:
    return int(bs) if bs else None


@wallaroo.computation("upper")
def upper(text: str) -> str | None:
    return text.upper() or None


@wallaroo.computation_multi("split")
def split(line: str) -> list[str]:
    return line.split()


class Totals:
    def __init__(self) -> None:
        self.totals: dict[str, int] = {}

    def add(self, word: str) -> int:
        self.totals[word] = self.totals.get(word, 0) + 1
        return self.totals[word]


class TotalsBuilder:
    def __init__(self, first: str) -> None:
        self.first = first

    def build(self) -> Totals:
        totals = Totals()
        totals.add(self.first)
        return totals


@wallaroo.state_computation("count")
def count(word: str, state: Totals) -> tuple[tuple[str, int], bool]:
    return (word, state.add(word)), True


@wallaroo.state_computation_multi("history")
def history(word: str, state: list[str]) -> tuple[list[str] | None, bool]:
    state.append(word)
    return state[:], len(state) > 1


@wallaroo.state_computation("count", state=Totals)
def count_alone(word: str, state: Totals) -> tuple[str, int]:
    return word, state.add(word)


@wallaroo.state_computation_multi("longest", list)
def longest(counted: tuple[str, int], state: list[str]) -> list[str]:
    state.append(counted[0])
    return [max(state, key=len)]


@wallaroo.partition
def first_letter(word: str) -> str:
    return word[0]


@wallaroo.key_extractor
def last_letter(word: str) -> str:
    return word[-1]


class ByLength:
    def extract_key(self, data: str) -> int:
        return len(data)


class Shorten:
    """A step of the first generation."""

    def name(self) -> str:
        return "shorten"

    def compute(self, data: str) -> str | None:
        return data[:5]


class Lines:
    def header_length(self) -> int:
        return 4

    def payload_length(self, bs: bytes) -> int:
        length: int = struct.unpack(">I", bs)[0]
        return length

    def decode(self, bs: bytes) -> str:
        return bs.decode()


@wallaroo.encoder
def encode(counted: tuple[str, int]) -> bytes:
    return "{} => {}\n".format(*counted).encode()


@wallaroo.encoder
def encode_text(text: str) -> str | None:
    return text or None


def built(args: list[str]) -> wallaroo.Application:
    (in_host, in_port), (host, port) = wallaroo.tcp_parse_input_addrs(args)
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    source = wallaroo.TCPSourceConfig(in_host, in_port, decode)
    sink = wallaroo.TCPSinkConfig(out_host, out_port, encode)
    return (
        wallaroo.ApplicationBuilder("Typed")
        .new_pipeline("words", source)
        .to(split)
        .to_parallel(Shorten)
        .to_state_partition(count, Totals, "totals", first_letter, range(3))
        .to_sink(sink)
        .done()
        .new_pipeline("lines", wallaroo.TCPSourceConfig(host, port, Lines()))
        .to(upper)
        .to(Shorten())
        .to_stateful(history, list, "history")
        .to_stateful(count, state_builder=TotalsBuilder("first"), state_name="all")
        .to_sinks([sink, sink])
        .build()
    )


def chained(args: list[str]) -> wallaroo.Application:
    host, port = wallaroo.tcp_parse_input_addrs(args)[0]
    words = wallaroo.source("words", wallaroo.TCPSourceConfig(host, port, decode))
    counted = words.to(split).key_by(last_letter).to(count_alone).collect().to(longest).key_by(ByLength)
    return wallaroo.build_application("Chained", counted.to_sink(wallaroo.TCPSinkConfig(host, 7002, encode_text)))


@wallaroo.decoder
def decode_keyed(bs: bytes, message: wallaroo.KafkaMessage) -> tuple[bytes | None, int]:
    return message.key, int(bs)


@wallaroo.encoder
def encode_keyed(counted: tuple[str, int]) -> tuple[str, str | None]:
    return str(counted[1]), counted[0]


@wallaroo.encoder
def encode_partitioned(counted: tuple[str, int]) -> tuple[bytes, str, int] | None:
    return (b"%d" % counted[1], counted[0], 0) if counted[0] else None


class Keyed:
    def decode(self, bs: bytes, message: wallaroo.KafkaMessage) -> str | None:
        return None if message.time is None else bs.decode()


def with_kafka(args: list[str]) -> wallaroo.Application:
    brokers = [("127.0.0.1", "9092")]
    source = wallaroo.KafkaSourceConfig("words", brokers, "Warn", decode, start="latest", group="mine")
    sink = wallaroo.KafkaSinkConfig("counts", brokers, "Warn", 0, 100000, encode_keyed, exactly_once=False)
    other = wallaroo.KafkaSinkConfig("all", brokers, encoder=encode_partitioned, config={"compression.type": "lz4"})
    keyed: wallaroo.KafkaDecoder[str] = Keyed()
    return (
        wallaroo.ApplicationBuilder("Topics")
        .new_pipeline("words", source)
        .to_stateful(count, Totals, "totals")
        .to_sinks([sink, other, wallaroo.CustomKafkaSinkCLIParser(args, encode)])
        .done()
        .new_pipeline("lines", wallaroo.CustomKafkaSourceCLIParser(args, keyed))
        .done()
        .new_pipeline("numbers", wallaroo.KafkaSourceConfig("numbers", brokers, decoder=decode_keyed))
        .to_sink(wallaroo.DefaultKafkaSinkCLIParser(encode_text))
        .build()
    )


def decoded(decoder: wallaroo.Decoder[str], bs: bytes) -> str | None:
    return decoder.decode(bs)


def results() -> tuple[list[str], bytes, dict[str, list[bytes]]]:
    plain: list[str] = testing.run(chained, ["why hello"])
    encoded: bytes = testing.run(chained, [b"why hello"], encoded=True)[0]
    by_sink: dict[str, list[bytes]] = testing.run_all(chained, {"words": ["why"]}, encoded=True)
    return plain, encoded, by_sink


def calls() -> tuple[int | None, str | None, str, tuple[str, int]]:
    """Call decorated functions like the functions, by position and by name."""
    text = decoded(decode, b"a") or decoded(Lines(), b"a")
    return decode_number(b"5"), upper(text="why"), first_letter(text or "a"), count_alone("why", state=Totals())
