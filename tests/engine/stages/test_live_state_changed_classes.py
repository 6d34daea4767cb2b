"""State classes that change between two runs of an application, without Spark."""

import gc
import sys

import pytest
from tests.engine.blocks import Blocks

import wallaroo
from wallaroo import class_changes
from wallaroo.errors import SavedStateError


@pytest.fixture(autouse=True)
def unfreeze():
    """Undo what a worker does to the garbage collector of its process."""
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def first_version(monkeypatch):
    monkeypatch.setattr(class_changes, "_renamed", {})
    monkeypatch.setattr(class_changes, "_upgrades", {})
    monkeypatch.setattr(Totals, "has_history", False)


class Totals:
    has_history = False

    def __init__(self):
        self.number = 0
        if Totals.has_history:
            self.history = []


def count(word, totals):
    totals.number += 1
    if Totals.has_history:
        totals.history.append(word)
        return f"{word} {totals.number} {len(totals.history)}", True
    return f"{word} {totals.number}", True


@pytest.fixture
def blocks(make, tmp_path):
    """Return an application that has run once, with two words."""
    line = make.pipeline("p", make.state_step(count, state="totals", make=Totals))
    blocks = Blocks(make.plan(line, run_id="first", buckets=1), tmp_path, partitions=1)
    assert blocks.run(("p", [b"a", b"b"]))[1] == ["a 1", "b 1"]
    blocks.commit()
    return blocks


def second(blocks):
    blocks.plan.run_id = "second"
    return blocks.restart(partitions=1)


def test_a_new_attribute_is_explained_in_the_dead_letters(blocks):
    Totals.has_history = True
    again = second(blocks)
    # The second failure of a key takes another way than the first.
    assert again.run(("p", [b"a", b"a", b"c"]))[1] == ["c 1 1"]
    assert [letter["key"] for letter in again.letters] == ["'a'", "'a'"]
    for letter in again.letters:
        for text in (letter["error"], letter["traceback"]):
            assert "AttributeError: 'Totals' object has no attribute 'history'\nA new Totals has the attribute" in text
        assert "@wallaroo.state_upgrade(Totals) above it. Then replay the dead letters." in letter["error"]


def test_upgraded_states_are_like_new_ones(blocks):
    Totals.has_history = True

    @wallaroo.state_upgrade(Totals)
    def add_history(totals):
        if not hasattr(totals, "history"):
            totals.history = ["before"] * totals.number

    again = second(blocks)
    assert again.run(("p", [b"a", b"a", b"c"]))[1] == ["a 2 2", "a 3 3", "c 1 1"]
    # A failure in the middle of the block undoes nothing of it.
    again.crash()
    assert again.run()[1] == ["a 2 2", "a 3 3", "c 1 1"]
    again.commit()
    third = second(again)
    assert third.run(("p", [b"a", b"b"]))[1] == ["a 4 4", "b 2 2"]
    assert third.letters == []


def test_a_missing_class_is_found_before_the_first_message(blocks, monkeypatch):
    monkeypatch.delattr(sys.modules[__name__], "Totals")
    again = second(blocks)
    (worker,) = again.workers
    heads = again.commits.heads
    with pytest.raises(SavedStateError, match=r"State 'totals' was saved with objects of the class \S+\.Totals, which"):
        worker.try_states(0, heads, again.stage(0, 0)._files)
    # Other levels belong to other tasks.
    worker.try_states(1, heads, again.stage(0, 0)._files)
    with pytest.raises(SavedStateError):
        again.run(("p", [b"a"]))
