"""An application that changes between runs, and one that starts fresh: which states are kept, and which start empty."""

import random
from collections import defaultdict
from pathlib import Path

import pytest

from .harness import READY, send


class Editions:
    """What the application has to put out, in order for each key; its states, by name and key."""

    def __init__(self):
        self.states = defaultdict(int)
        self.lines = defaultdict(list)

    def add(self, *state, number=1):
        self.states[state] += number
        return self.states[state]

    def words(self, edition, words):
        for word in words:
            number = self.add("counts", word)
            if edition == 1:
                second = self.add("letters seen", word, number=len(word))
            else:
                second = self.add("sums", word, number=number)
            self.lines[word].append(f"{number} {second}")
        return words

    def others(self, edition, words):
        for word in words:
            key = f"length {len(word)}" if edition == 1 else "all"
            self.lines[key].append(str(self.add(key)))
        return words

    @property
    def size(self):
        return sum(len(f"{key} => {line}\n") for key in self.lines for line in self.lines[key])


def received(data):
    found = defaultdict(list)
    for line in data.decode().splitlines():
        key, _, numbers = line.partition(" => ")
        found[key].append(numbers)
    return found


@pytest.mark.timeout(900)
def test_states_survive_changes_and_start_empty_after_a_reset(machida, receiver, tmp_path):
    choose = random.Random(4)
    batches = [[choose.choice("abcdefgh") * choose.randrange(1, 9) for _ in range(400)] for _ in range(9)]
    expected = Editions()
    sink = receiver()
    home = tmp_path / "home"

    def launch(edition, *options):
        addresses = ["--in", "127.0.0.1:0,127.0.0.1:0", "--out", sink.address, "--resilience-dir", home]
        return machida("--application-module", "editions", "--edition", str(edition), *addresses, *options)

    def start(edition, *options):
        return launch(edition, *options).wait_until_ready()

    run = start(1)
    send(run.address("words"), expected.words(1, batches[0]))
    send(run.address("lengths"), expected.others(1, batches[1]))
    run.wait_until(lambda: sink.size >= expected.size, "the outputs of the first edition")
    # It dies in a block that the same edition has to finish.
    held = tmp_path / "held"
    send(run.address("words"), [str(held), *batches[2]])
    run.wait_until(lambda: Path(f"{held}.waiting").exists(), "the block under way")
    run.kill()
    held.touch()
    expected.words(1, batches[2])
    refused = launch(2)
    assert refused.exit_code() == 5
    assert "What was in progress has messages of the pipeline 'lengths', which the application no" in refused.output
    run = start(1)
    run.wait_until(lambda: sink.size >= expected.size, "what was under way")
    run.stop()

    run = start(2)
    assert (
        "  changed     new states 'total', 'sums'; states 'lengths', 'letters seen' no longer used, and kept\n"
        in run.output
    )
    send(run.address("words"), expected.words(2, batches[3]))
    send(run.address("everything"), expected.others(2, batches[4]))
    run.wait_until(lambda: sink.size >= expected.size, "the outputs of the second edition")
    run.stop()

    run = start(1)
    assert (
        "  changed     states 'sums', 'total' no longer used, and kept; states 'lengths', 'letters seen' used again\n"
        in run.output
    )
    send(run.address("words"), expected.words(1, batches[5]))
    send(run.address("lengths"), expected.others(1, batches[6]))
    run.wait_until(lambda: sink.size >= expected.size, "the outputs of the first edition, used again")
    run.stop()

    before = {path.name for path in home.iterdir()}
    expected.states.clear()
    run = start(2, "--reset")
    [kept] = home.glob("before-*")
    told = run.output.partition(READY)[0]
    assert f"  archived    what was there, in {kept}\n              to delete it: rm -r {kept}\n" in told
    assert "resuming where it stopped" not in told
    assert {path.name for path in kept.iterdir()} == before - {"lock", "wallaroo-directory"}
    send(run.address("words"), expected.words(2, batches[7]))
    send(run.address("everything"), expected.others(2, batches[8]))
    run.wait_until(lambda: sink.size >= expected.size, "the outputs of a fresh start")
    run.stop()

    assert received(sink.everything()) == expected.lines
    assert not (home / "dead-letters.jsonl").exists()
