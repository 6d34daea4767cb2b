"""Counts words, with an output for every word; the states are those of 27 letters.

`--by-word` gives every word a state of its own instead.
"""

import string

import wallaroo

LETTERS = [*string.ascii_lowercase, "!"]


def application_setup(args):
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    ab = wallaroo.ApplicationBuilder("Word count benchmark")
    ab.new_pipeline("words", wallaroo.TCPSourceConfig(in_host, in_port, decode))
    ab.to_parallel(split)
    if "--by-word" in args:
        ab.to_state_partition(count_own_word, WordTotal, "word totals", word_itself)
    else:
        ab.to_state_partition(count_word, WordTotals, "word totals", first_letter, LETTERS)
    ab.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encode))
    return ab.build()


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(bs):
    return bs.decode("utf-8")


@wallaroo.computation_multi(name="split into words")
def split(line):
    return line.split(" ")


@wallaroo.partition
def first_letter(word):
    return word[0] if "a" <= word[0] <= "z" else "!"


class WordTotals:
    """The counts of all words with one first letter."""

    def __init__(self):
        self.totals = {}

    def update(self, word):
        total = self.totals[word] = self.totals.get(word, 0) + 1
        return total


@wallaroo.state_computation(name="count word")
def count_word(word, state):
    return ((word, state.update(word)), True)


@wallaroo.partition
def word_itself(word):
    return word


class WordTotal:
    """The count of one word."""

    def __init__(self):
        self.total = 0


@wallaroo.state_computation(name="count the word itself")
def count_own_word(word, state):
    state.total += 1
    return ((word, state.total), True)


@wallaroo.encoder
def encode(data):
    return f"{data[0]} => {data[1]}\n".encode()
