"""Everything that can go wrong in user code, each for the message that asks for it, until the program is fixed."""

import threading
from pathlib import Path

import wallaroo

FIXED = False
KEYS = ["a", "b", "c", "z"] if FIXED else ["a", "b", "c"]


def application_setup(args):
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    ab = wallaroo.ApplicationBuilder("Failing")
    ab.new_pipeline("Failing", wallaroo.TCPSourceConfig(in_host, in_port, decoder))
    ab.to(check)
    ab.to(expand)
    ab.to_state_partition(remember, Memory, "memory", first_word, KEYS)
    ab.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encoder))
    return ab.build()


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decoder(bs):
    if FIXED:
        return bs.decode("utf-8", "ignore")
    return bs.decode("utf-8")


@wallaroo.computation(name="check")
def check(text):
    if "boom" in text and not FIXED:
        raise ValueError("cannot work with " + text)
    # Something outside that is not there yet.
    if "later" in text and not Path(__file__).with_name("now").exists():
        raise LookupError("not yet")
    return text


@wallaroo.computation_multi(name="expand")
def expand(text):
    if "one not many" in text and not FIXED:
        return text
    if "lock" in text:
        return [Locked(text)]
    return [text]


class Locked:
    def __init__(self, text):
        self.text = text
        self.lock = threading.Lock()

    def split(self, separator):
        return self.text.split(separator)

    def __repr__(self):
        return "Locked(" + self.text + ")"


class Memory:
    def __init__(self):
        self.words = []
        self.lock = None


@wallaroo.partition
def first_word(text):
    if FIXED:
        return text.split(" ")[0]
    first, second = text.split(" ")[:2]
    return first


@wallaroo.state_computation(name="remember")
def remember(text, memory):
    key, _, word = text.partition(" ")
    memory.words.append(word)
    if word == "explode" and not FIXED:
        memory.words.append("more")
        raise RuntimeError("exploded")
    if word == "shapeless" and not FIXED:
        return text
    if word == "poison" and not FIXED:
        memory.lock = threading.Lock()
    return ((key, memory.words[-1], len(memory.words)), True)


@wallaroo.encoder
def encoder(data):
    key, word, count = data
    if word == "unsendable" and not FIXED:
        raise KeyError(word)
    if word == "number" and not FIXED:
        return count
    return f"{key} {word} => {count}\n"
