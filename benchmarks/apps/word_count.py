"""The word count of the benchmarks: 27 keys, an output for every word."""

import string

import wallaroo

KEYS = [*string.ascii_lowercase, "!"]


def application_setup(args):
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    ab = wallaroo.ApplicationBuilder("Word count benchmark")
    ab.new_pipeline("count words", wallaroo.TCPSourceConfig(in_host, in_port, decode))
    ab.to_parallel(split)
    ab.to_state_partition(count_word, WordTotals, "word totals", first_letter, KEYS)
    ab.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encode))
    return ab.build()


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(bs):
    return bs.decode("utf-8")


@wallaroo.computation_multi(name="split into words")
def split(line):
    return line.split(" ")


class WordTotals:
    def __init__(self):
        self.totals = {}

    def update(self, word):
        total = self.totals[word] = self.totals.get(word, 0) + 1
        return total


@wallaroo.state_computation(name="count word")
def count_word(word, state):
    return ((word, state.update(word)), True)


@wallaroo.partition
def first_letter(word):
    return word[0] if "a" <= word[0] <= "z" else "!"


@wallaroo.encoder
def encode(data):
    return f"{data[0]} => {data[1]}\n".encode()
