"""Counts words as they come, written with functions and decorators."""

import string

import wallaroo

PUNCTUATION = " !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"


def application_setup(args):
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]

    word_partitions = [*string.ascii_lowercase, "!"]

    ab = wallaroo.ApplicationBuilder("Word Count Application")
    ab.new_pipeline("Split and Count", wallaroo.TCPSourceConfig(in_host, in_port, decoder))
    ab.to_parallel(split)
    ab.to_state_partition(count_word, WordTotals, "word totals", partition, word_partitions)
    ab.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encoder))
    return ab.build()


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decoder(bs):
    return bs.decode("utf-8")


@wallaroo.computation_multi(name="split into words")
def split(data):
    words = (word.strip(PUNCTUATION) for word in data.lower().replace("\n", " ").split(" "))
    return [word for word in words if word]


class WordTotals:
    """The state of one key: how often each of its words has been seen."""

    def __init__(self):
        self.totals = {}

    def update(self, word):
        self.totals[word] = self.totals.get(word, 0) + 1
        return self.totals[word]


@wallaroo.state_computation(name="Count Word")
def count_word(word, word_totals):
    return ((word, word_totals.update(word)), True)


@wallaroo.partition
def partition(word):
    return word[0] if "a" <= word[0] <= "z" else "!"


@wallaroo.encoder
def encoder(data):
    word, count = data
    return f"{word} => {count}\n".encode()
