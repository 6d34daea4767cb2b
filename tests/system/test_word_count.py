"""The word count of the first Wallaroo posts, on text as people write it."""

import random
import re
from collections import Counter

from .harness import dead_letters, message_of, send, values_by_key

PUNCTUATION = " !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"


def lines_of_text(number):
    """Return lines with capitals, punctuation, accents, digits, double spaces and nothing at all."""
    choose = random.Random(7)
    words = ["The", "quick,", "brown", "fox;", "it's", "'over'", "THE", "lazy", "dog!", "Élan", "42", "1st", "--"]
    words += ["zebra.", "(a)", "don't", "x_y", "Straße"]
    lines = ["", "   ", "...", "one  two", "first line\nsecond, line\n", "ends with a newline\n"]
    for _ in range(number):
        spaces = choose.choices([" ", "  "], [20, 1], k=7)
        lines.append("".join(choose.choice(words) + space for space in spaces).strip())
    return lines


def words_of(line):
    """Return the words of a line as the program of the post splits it, empty ones among them."""
    cleaned = (part.lower().strip(PUNCTUATION) for part in line.split("\n"))
    return [word.strip(PUNCTUATION) for part in cleaned for word in part.split(" ")]


def test_every_word_is_counted_and_empty_ones_are_kept_as_dead_letters(machida, receiver, tmp_path):
    lines = lines_of_text(3000)
    totals = Counter(word for line in lines for word in words_of(line))
    empty = totals.pop("")
    expected = {word: list(range(1, count + 1)) for word, count in totals.items()}
    size = sum(len(f"{word} => {count}\n".encode()) for word, counts in expected.items() for count in counts)
    sink = receiver()
    command = ["--application-module", "word_count", "--in", "127.0.0.1:0", "--out", sink.address]
    command += ["--resilience-dir", tmp_path / "home"]
    run = machida(*command).wait_until_ready()

    second = machida(*command)
    assert second.exit_code() == 5
    assert f"Another run (process {run.pid}) is using {tmp_path / 'home'}." in second.output
    assert "--resilience-dir" in second.output
    assert "Traceback" not in second.output

    send(run.address("Split and Count"), lines)
    run.wait_until(lambda: sink.size >= size, "all counts")
    run.stop()

    assert values_by_key(sink.everything()) == expected
    letters = dead_letters(tmp_path / "home")
    positions = [number for number, line in enumerate(lines) for word in words_of(line) if not word]
    assert sorted(letter["position"] for letter in letters) == positions
    assert len(letters) == empty
    for letter in letters:
        assert (letter["pipeline"], letter["step"]) == ("Split and Count", "Count Word")
        assert (letter["source"], letter["message"], message_of(letter)) == ("Split and Count", "''", "")
        assert letter["error"] == "IndexError: string index out of range"
    failed = r"Pipeline 'Split and Count', step 'Count Word' failed for the message '', from message \d+ of '.*'\n"
    told = re.findall(failed, run.output)
    assert len(told) == 1
    assert 'word_count.py", line' in run.output
    assert "in partition" in run.output
