"""Counts words from a topic of Kafka to another: each word goes out again with the number of times it has been seen."""

import wallaroo

PUNCTUATION = " !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"


def application_setup(args):
    source = wallaroo.KafkaSourceConfig(*wallaroo.kafka_parse_source_options(args), decode)
    sink = wallaroo.KafkaSinkConfig(*wallaroo.kafka_parse_sink_options(args), encode)
    counts = wallaroo.source("Split and Count", source).to(split).key_by(first_letter).to(count_word).to_sink(sink)
    return wallaroo.build_application("Word Count with Kafka", counts)


@wallaroo.decoder
def decode(bs):
    return bs.decode("utf-8")


@wallaroo.computation_multi(name="split into words")
def split(line):
    return [clean for word in line.lower().split(" ") if (clean := word.strip(PUNCTUATION))]


@wallaroo.key_extractor
def first_letter(word):
    return word[0]


class WordTotals:
    """The state of one key: how often each of its words has been seen."""

    def __init__(self):
        self.totals = {}


@wallaroo.state_computation(name="count word", state=WordTotals)
def count_word(word, state):
    state.totals[word] = state.totals.get(word, 0) + 1
    return word, state.totals[word]


@wallaroo.encoder
def encode(counted):
    """The value is a line of text. The key is the word: so all counts of a word are in one partition, in order."""
    word, total = counted
    return f"{word} => {total}", word
