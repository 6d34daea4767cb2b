"""Each message becomes hundreds, which a state counts; the state takes none of them before a file is there."""

import argparse
import time
from pathlib import Path

import wallaroo

COPIES = int(__import__("os").environ.get("COPIES", "200"))


def application_setup(args):
    parser = argparse.ArgumentParser()
    parser.add_argument("--begin", type=Path)
    parser.add_argument("--states", type=int, default=1)
    mine = parser.parse_known_args(args)[0]
    Count.begin = mine.begin
    line = wallaroo.source("Copies", wallaroo.TCPSourceConfig(*wallaroo.tcp_parse_input_addrs(args)[0], decode)).to(
        copy
    )
    for number in range(mine.states):
        line = line.key_by(last_letter).to(wallaroo.state_computation(f"count {number}", Count)(count))
    return wallaroo.build_application(
        "Fan-out", line.to_sink(wallaroo.TCPSinkConfig(*wallaroo.tcp_parse_output_addrs(args)[0], encode))
    )


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(bs):
    return bs.decode()


@wallaroo.computation_multi("copy")
def copy(text):
    return [f"{number} {text}" for number in range(COPIES)]


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
    return text


@wallaroo.encoder
def encode(text):
    return text + "\n"
