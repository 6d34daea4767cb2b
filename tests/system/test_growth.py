"""An application that runs for long keeps its directory small: history is let go of."""

from collections import Counter

from .harness import send, values_by_key

WORDS = [f"{letter}{number}" for letter in "abcdefgh" for number in range(5)]


def files_by_place(home):
    """Return how many files each part of the directory has, logs of Spark and its scratch files aside."""
    places = Counter()
    for path in home.rglob("*"):
        parts = path.relative_to(home).parts
        if path.is_file() and parts[0] not in {"logs", "scratch"}:
            # Folders of the state store are numbered by partition; they belong together.
            places["/".join(part for part in parts[:-1] if not part.isdigit())] += 1
    return places


def size_of(home):
    return sum(path.stat().st_size for path in home.rglob("*") if path.is_file())


def test_the_directory_does_not_grow_with_the_batches(machida, receiver, tmp_path):
    home = tmp_path / "home"
    sink = receiver()
    arguments = ["--in", "127.0.0.1:0", "--out", sink.address, "--resilience-dir", home]
    run = machida("--application-module", "word_count", *arguments).wait_until_ready()
    address = run.address("Split and Count")
    expected = Counter()

    def run_batches(number):
        """Send so many messages, each when the one before it has come out: each is a batch of its own."""
        for _ in range(number):
            expected.update(WORDS)
            size = sum(len(f"{word} => {n}\n") for word in WORDS for n in range(1, expected[word] + 1))
            send(address, [" ".join(WORDS)])
            run.wait_until(lambda size=size: sink.size >= size, "the counts of a batch")

    # Long enough for everything that is let go of only now and then to have been let go of.
    run_batches(70)
    early, early_size = files_by_place(home), size_of(home / "checkpoint")
    run_batches(140)
    late, late_size = files_by_place(home), size_of(home / "checkpoint")
    run.stop()

    assert values_by_key(sink.everything()) == {word: list(range(1, 211)) for word in WORDS}
    assert early.keys() == late.keys()
    for place, number in late.items():
        assert number <= early[place] + 30, (place, early, late)
    assert late_size < 2 * early_size + (1 << 20)
