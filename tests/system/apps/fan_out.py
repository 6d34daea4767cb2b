"""Each message becomes hundreds, which a state numbers; it takes none of them before there is a file that says so."""

import argparse
import time
from pathlib import Path

import wallaroo


def application_setup(args):
    parser = argparse.ArgumentParser()
    parser.add_argument("--begin", type=Path)
    parser.add_argument("--copies", type=int)
    parser.add_argument("--states", type=int, default=1)
    mine = parser.parse_known_args(args)[0]
    Count.begin = mine.begin
    Copies.number = mine.copies
    source = wallaroo.TCPSourceConfig(*wallaroo.tcp_parse_input_addrs(args)[0], decode)
    line = wallaroo.source("Copies", source).to(copy)
    for number in range(mine.states):
        line = line.key_by(last_letter).to(wallaroo.state_computation(f"count {number}", Count)(count))
    sink = wallaroo.TCPSinkConfig(*wallaroo.tcp_parse_output_addrs(args)[0], encode)
    return wallaroo.build_application("Fan-out", line.to_sink(sink))


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(bs):
    return bs.decode()


class Copies:
    number = 0


@wallaroo.computation_multi("copy")
def copy(text):
    return [f"{number} {text}" for number in range(Copies.number)]


@wallaroo.key_extractor
def last_letter(text):
    return text[-1]


class Count:
    begin = None

    def __init__(self):
        self.seen = 0


def count(text, counted):
    while not counted.seen and not Count.begin.exists():
        time.sleep(0.01)
    counted.seen += 1
    return f"{counted.seen} {text}"


@wallaroo.encoder
def encode(text):
    return text + "\n"
