"""Rows between stages: small blocks share one, as long as none of them has to wait for it."""

from array import array

import pytest

from wallaroo.engine.stages import tasks
from wallaroo.engine.stages.tasks import NOTHING, TaskSettings, _Shuffle
from wallaroo.engine.transport.shares import BLOCK, Chunk, split_shares
from wallaroo.engine.transport.worker_notes import NO_CARE, Care

SETTINGS = TaskSettings(None, "", "", "attempt", partitions=2, readers=2, levels=1, states="")


def blocks(number, size=10):
    for block in range(number):
        yield [[Chunk(BLOCK, 0, 0, b"%d" % block), Chunk(0, 0, 1, bytes(size), array("I", [0, 1]))] for _ in range(2)]


def rows(shuffle, given):
    """Return how many blocks each row has for each partition."""
    return [
        [len(list(split_shares(memoryview(share.as_buffer())))) for share in batch.column(3)]
        for batch in shuffle.rows(given)
        if batch.column(1)[0].as_py() != NOTHING
    ]


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    monkeypatch.setattr(tasks, "_TOGETHER_SECONDS", 600.0)


def test_small_blocks_share_a_row():
    assert rows(_Shuffle(SETTINGS, 0, NO_CARE), blocks(5)) == [[5, 5]]


def test_a_row_is_not_much_larger_than_a_small_block():
    assert rows(_Shuffle(SETTINGS, 0, NO_CARE), blocks(5, 20_000)) == [[2, 2], [2, 2], [1, 1]]


def test_no_block_waits_for_another_that_takes_long(monkeypatch):
    monkeypatch.setattr(tasks, "_TOGETHER_SECONDS", 0.0)
    assert rows(_Shuffle(SETTINGS, 0, NO_CARE), blocks(3)) == [[1, 1]] * 3


def test_where_a_process_has_died_each_block_goes_alone():
    assert rows(_Shuffle(SETTINGS, 0, Care(frozenset([7]), {}, {})), blocks(3)) == [[1, 1]] * 3
