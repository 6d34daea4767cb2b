"""Code that ends its whole process, each for the message that asks for it, until the program is repaired."""

import ctypes
import os
import signal
from pathlib import Path

import wallaroo

MENDED = Path(__file__).with_name("mended").exists()


def application_setup(args):
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    ab = wallaroo.ApplicationBuilder("Fatal")
    ab.new_pipeline("Fatal", wallaroo.TCPSourceConfig(in_host, in_port, decode))
    ab.to(check)
    ab.to(split)
    ab.to_state_partition(count, Count, "counts", key_of)
    ab.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encode))
    return ab.build()


def fatal(text, place):
    """End this process where a message says so: `fatal-PLACE-HOW`."""
    if MENDED or f"fatal-{place}-" not in text:
        return
    if text.endswith("exit"):
        os._exit(3)
    if text.endswith("kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    if text.endswith("crash"):
        ctypes.string_at(0)


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(bs):
    text = bs.decode()
    fatal(text, "decoder")
    return text


@wallaroo.computation(name="check")
def check(text):
    if "raise" in text:
        raise ValueError(text)
    return text


@wallaroo.computation_multi(name="split")
def split(text):
    return text.split(",")


@wallaroo.partition
def key_of(text):
    return text.partition(" ")[0]


class Count:
    def __init__(self):
        self.number = 0


@wallaroo.state_computation(name="count")
def count(text, state):
    state.number += 1
    fatal(text, "count")
    if "explode" in text:
        raise RuntimeError(text)
    return (text, state.number), True


@wallaroo.encoder
def encode(counted):
    fatal(counted[0], "encoder")
    return f"{counted[0]} => {counted[1]}\n"
