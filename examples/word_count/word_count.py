"""Counts words as they come: each word of a message goes out again with the number of times it has been seen."""

import string
import struct

import wallaroo

PUNCTUATION = " !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"


def application_setup(args):
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]

    word_partitions = list(string.ascii_lowercase)
    word_partitions.append("!")

    ab = wallaroo.ApplicationBuilder("Word Count Application")
    ab.new_pipeline("Split and Count", wallaroo.TCPSourceConfig(in_host, in_port, Decoder()))
    ab.to_parallel(Split)
    ab.to_state_partition(CountWord(), WordTotalsBuilder(), "word totals", WordPartitionFunction(), word_partitions)
    ab.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, Encoder()))
    return ab.build()


class Decoder:
    """A message is four bytes with the length, big-endian, and so many bytes of UTF-8."""

    def header_length(self):
        return 4

    def payload_length(self, bs):
        return struct.unpack(">I", bs)[0]

    def decode(self, bs):
        return bs.decode("utf-8")


class Split:
    def name(self):
        return "split into words"

    def compute_multi(self, data):
        words = []
        for line in data.split("\n"):
            for word in line.lower().split(" "):
                clean_word = word.strip(PUNCTUATION)
                if clean_word:
                    words.append(clean_word)
        return words


class WordPartitionFunction:
    """The first letter is the key; all words that begin with anything else share one."""

    def partition(self, data):
        if data[0] >= "a" and data[0] <= "z":
            return data[0]
        else:
            return "!"


class WordTotalsBuilder:
    def build(self):
        return WordTotals()


class WordTotals:
    """The state of one key: how often each of its words has been seen."""

    def __init__(self):
        self.word_totals = {}

    def update(self, word):
        if word in self.word_totals:
            self.word_totals[word] = self.word_totals[word] + 1
        else:
            self.word_totals[word] = 1

    def get_count(self, word):
        return WordCount(word, self.word_totals[word])


class CountWord:
    def name(self):
        return "Count Word"

    def compute(self, word, word_totals):
        word_totals.update(word)
        return (word_totals.get_count(word), True)


class WordCount:
    def __init__(self, word, count):
        self.word = word
        self.count = count


class Encoder:
    def encode(self, data):
        return f"{data.word} => {data.count}\n".encode()
