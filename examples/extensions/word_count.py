"""Counts words: texts come from one script, and each word goes to another, with how often it has been seen."""

import wallaroo

from text_documents import TextStream, parse_text_stream_addr
from word_counts import CountStream, parse_count_stream_addr


def application_setup(args):
    texts = TextStream(*parse_text_stream_addr(args))
    counts = CountStream(*parse_count_stream_addr(args))
    ab = wallaroo.ApplicationBuilder("Word Count with Extensions")
    ab.new_pipeline("Split and Count", texts.source())
    ab.to_parallel(split)
    ab.to_state_partition(count_word, WordTotals, "word totals", first_letter)
    ab.to_sink(counts.sink())
    return ab.build()


@wallaroo.computation_multi(name="split into words")
def split(text):
    return [clean for word in text.lower().split() if (clean := word.strip(".,;:!?\"'()"))]


@wallaroo.partition
def first_letter(word):
    return word[0]


class WordTotals:
    def __init__(self):
        self.totals = {}


@wallaroo.state_computation(name="count word")
def count_word(word, state):
    state.totals[word] = state.totals.get(word, 0) + 1
    return (word, state.totals[word]), True
