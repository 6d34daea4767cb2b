"""Everything that can go wrong in user code, each for the message that asks for it."""

import threading

import wallaroo


def application_setup(args):
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    ab = wallaroo.ApplicationBuilder("Troubles")
    ab.new_pipeline("Troubles", wallaroo.TCPSourceConfig(in_host, in_port, decoder))
    ab.to(check)
    ab.to(expand)
    ab.to_state_partition(remember, Memory, "memory", first_word, ["a", "b", "c"])
    ab.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encoder))
    return ab.build()


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decoder(bs):
    return bs.decode("utf-8")


@wallaroo.computation(name="check")
def check(text):
    if "boom" in text:
        raise ValueError("cannot work with " + text)
    return text


@wallaroo.computation_multi(name="expand")
def expand(text):
    if "one not many" in text:
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
    first, second = text.split(" ")[:2]
    return first


@wallaroo.state_computation(name="remember")
def remember(text, memory):
    key, word = text.split(" ")
    memory.words.append(word)
    if word == "explode":
        memory.words.append("more")
        raise RuntimeError("exploded")
    if word == "shapeless":
        return text
    if word == "poison":
        memory.lock = threading.Lock()
    return ((key, memory.words[-1], len(memory.words)), True)


@wallaroo.encoder
def encoder(data):
    key, word, count = data
    if word == "unsendable":
        raise KeyError(word)
    if word == "number":
        return count
    return f"{key} {word} => {count}\n"
