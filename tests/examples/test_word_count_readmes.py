"""The READMEs of the two word counts, followed."""

from collections import Counter, defaultdict

import pytest

from .readme import EXAMPLES

PUNCTUATION = " !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"


def words_of(line):
    return [word.strip(PUNCTUATION) for word in line.lower().split(" ") if word.strip(PUNCTUATION)]


@pytest.mark.parametrize("example", ["word_count", "word_count_decorators"])
def test_every_word_is_counted_in_order(walkthrough, example):
    lines = (EXAMPLES / "word_count" / "text.txt").read_text().splitlines()
    totals = Counter(word for line in [*lines, "why hello world"] for word in words_of(line))
    if example != "word_count":
        walkthrough("word_count")  # Its text is what this one sends.
    walk = walkthrough(example)

    receiver = walk.start("wallaroo receive")
    walk.start("machida")
    walk.run("wallaroo send")
    walk.run("echo")
    walk.wait_for_lines(receiver, totals.total())
    walk.finish()

    counts = defaultdict(list)
    for line in receiver.stdout.decode().splitlines():
        word, _, count = line.partition(" => ")
        counts[word].append(int(count))
    assert counts == {word: list(range(1, total + 1)) for word, total in totals.items()}
