"""An application that runs for long keeps its directory small: history is let go of."""

from collections import Counter

import pytest

from .harness import send, values_by_key

WORDS = [f"{letter}{number}" for letter in "abcdefgh" for number in range(5)]
BATCHES = 120


def files_by_place(home):
    """Return how many files there are in each part of what outlives a run."""
    places = Counter()
    for part in ("checkpoint", "log"):
        for path in (home / part).rglob("*"):
            # Folders of the state store are numbered by partition; they belong together.
            folders = path.relative_to(home).parts[:-1]
            places["/".join(name for name in folders if not name.isdigit())] += path.suffix != ".tmp"
    return places


@pytest.mark.timeout(600)
def test_the_directory_does_not_grow_with_the_batches(machida, receiver, tmp_path):
    home = tmp_path / "home"
    sink = receiver()
    arguments = ["--in", "127.0.0.1:0", "--out", sink.address, "--resilience-dir", home, "--worker-count", "2"]
    run = machida("--application-module", "word_count", *arguments).wait_until_ready()
    address = run.address("Split and Count")
    size = 0
    growing = {}
    for number in range(1, BATCHES + 1):
        # Each message is sent when the one before it has come out, so each makes a batch of its own.
        send(address, [" ".join(WORDS)])
        size += sum(len(f"{word} => {number}\n") for word in WORDS)
        run.wait_until(lambda size=size: sink.size >= size, "the counts of a batch")
        if number == 2:
            growing = files_by_place(home)
        if number == 12:
            # Nothing has been let go of yet: this is how fast each part grows.
            growing = {place: (files - growing[place]) / 10 for place, files in files_by_place(home).items()}
    growing = {place: rate for place, rate in growing.items() if rate >= 0.5}
    assert {"checkpoint/offsets", "checkpoint/commits", "checkpoint/state"} <= growing.keys()

    def small():
        files = files_by_place(home)
        return all(files[place] < BATCHES * rate * 2 / 3 for place, rate in growing.items())

    run.wait_until(small, "letting go of history")
    run.stop()
    assert small()
    assert values_by_key(sink.everything()) == {word: list(range(1, BATCHES + 1)) for word in WORDS}
