"""Rows between stages: small blocks share one, as long as none of them has to wait for it."""

from array import array

import pytest

from wallaroo.engine.stages import shuffle as rows_module
from wallaroo.engine.stages.shuffle import NOTHING, Shuffle
from wallaroo.engine.transport.shuffle_format import BLOCK, Chunk, split_shares


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
    monkeypatch.setattr(rows_module, "_TOGETHER_SECONDS", 600.0)


def test_small_blocks_share_a_row():
    assert rows(Shuffle(2, 0, flushes=True, alone=False), blocks(5)) == [[5, 5]]


def test_a_row_is_not_much_larger_than_a_small_block():
    assert rows(Shuffle(2, 0, flushes=True, alone=False), blocks(5, 20_000)) == [[2, 2], [2, 2], [1, 1]]


def test_no_block_waits_for_another_that_takes_long(monkeypatch):
    monkeypatch.setattr(rows_module, "_TOGETHER_SECONDS", 0.0)
    assert rows(Shuffle(2, 0, flushes=True, alone=False), blocks(3)) == [[1, 1]] * 3


def test_where_a_process_has_died_each_block_goes_alone():
    assert rows(Shuffle(2, 0, flushes=False, alone=True), blocks(3)) == [[1, 1]] * 3
