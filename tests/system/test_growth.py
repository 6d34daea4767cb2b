"""An application that runs for long keeps its directory small: history is let go of."""

from collections import Counter

import pytest

from .harness import send, values_by_key

WORDS = [f"{letter}{number}" for letter in "abcdefgh" for number in range(5)]
LINES = 400


def files_in(home):
    """Return how many files there are in each part of what outlives a run."""
    return Counter(path.relative_to(home).parts[0] for path in home.rglob("*") if path.is_file())


@pytest.mark.timeout(600)
def test_the_directory_does_not_grow_with_the_epochs(machida, receiver, tmp_path):
    home = tmp_path / "home"
    sink = receiver()
    arguments = ["--in", "127.0.0.1:0", "--out", sink.address, "--resilience-dir", home, "--worker-count", "2"]
    arguments += ["--time-between-checkpoints", "100ms"]
    run = machida("--application-module", "word_count", *arguments).wait_until_ready()
    address = run.address("Split and Count")
    size = 0
    seen = set()
    for number in range(1, LINES + 1):
        # Each message is sent when the one before it has come out, so each is a block of its own.
        send(address, [" ".join(WORDS)])
        size += sum(len(f"{word} => {number}\n") for word in WORDS)
        run.wait_until(lambda size=size: sink.size >= size, "the counts of a line")
        seen |= set((home / "states").iterdir())
    run.stop()
    # Many epochs have written their states, and few of these files are left.
    assert len(seen) > 30
    assert files_in(home)["states"] <= 24
    assert files_in(home)["sequence"] <= 2 + 1
    assert values_by_key(sink.everything()) == {word: list(range(1, LINES + 1)) for word in WORDS}
