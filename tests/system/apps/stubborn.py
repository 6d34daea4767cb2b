"""Answers every message with itself, but for `hold`: then the worker starts a process of its own and never returns."""

import re
import subprocess
from pathlib import Path

import wallaroo


def application_setup(args):
    ab = wallaroo.ApplicationBuilder("Stubborn")
    ab.new_pipeline("words", wallaroo.TCPSourceConfig(*wallaroo.tcp_parse_input_addrs(args)[0], decode))
    ab.to(answer)
    ab.to_sink(wallaroo.TCPSinkConfig(*wallaroo.tcp_parse_output_addrs(args)[0], encode))
    return ab.build()


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(bs):
    return bs.decode()


@wallaroo.computation(name="answer")
def answer(text):
    if text.startswith("hold "):
        subprocess.Popen(["sleep", "600"], start_new_session=True)
        Path(text.removeprefix("hold ")).touch()
        re.match(r"(a+)+$", "a" * 60 + "b")  # For longer than anybody waits, and no other thread has a turn.
    return text


@wallaroo.encoder
def encode(text):
    return text.encode() + b"\n"
