"""Rows between stages: small blocks share one, as long as none of them has to wait for it."""

from array import array

import pytest

from wallaroo.engine.stages import shuffle as rows_module
from wallaroo.engine.stages.shuffle import NOTHING, BlockOrder, Shuffle
from wallaroo.engine.transport.buckets import spread_ids
from wallaroo.engine.transport.shuffle_format import BLOCK, Chunk, pack_share, split_shares
from wallaroo.ingress.block_sequence import SequencedBlock


def blocks(number, size=10):
    for block in range(number):
        record = SequencedBlock(block, 0, 0).pack()
        yield block, [[Chunk(BLOCK, 0, 0, record), Chunk(0, 0, 1, bytes(size), array("I", [0, 1]))] for _ in range(2)]


def there_is_room(first, last, size):
    """Let everything be sent at once."""


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
    assert rows(Shuffle(2, 0, there_is_room, flushes=True, alone=False), blocks(5)) == [[5, 5]]


def test_a_row_is_not_much_larger_than_a_small_block():
    assert rows(Shuffle(2, 0, there_is_room, flushes=True, alone=False), blocks(5, 20_000)) == [[2, 2], [2, 2], [1, 1]]


def test_no_block_waits_for_another_that_takes_long(monkeypatch):
    monkeypatch.setattr(rows_module, "_TOGETHER_SECONDS", 0.0)
    assert rows(Shuffle(2, 0, there_is_room, flushes=True, alone=False), blocks(3)) == [[1, 1]] * 3


def test_where_a_process_has_died_each_block_goes_alone():
    assert rows(Shuffle(2, 0, there_is_room, flushes=False, alone=True), blocks(3)) == [[1, 1]] * 3


@pytest.mark.parametrize("sizes", [(10, 10), (3000, 10), (10, 1001), (1000, 2500)])
def test_a_large_share_is_sent_in_several_rows_and_put_together_again(monkeypatch, sizes):
    monkeypatch.setattr(rows_module, "_BATCH_BYTES", 1000)
    monkeypatch.setattr(rows_module, "_MIN_ROW_BYTES", 500)
    ids = spread_ids(2, 2)
    orders = {part: BlockOrder(0, 1) for part in ids}
    sent = []
    for number, size in enumerate(sizes):
        record = Chunk(BLOCK, 0, 0, SequencedBlock(number, 0, 0).pack())
        sent.append([[record, Chunk(0, 0, 1, bytes([number]) * size)], [record, Chunk(0, 0, 1, b"x" * size * 2)]])
    come = {part: [] for part in ids}
    for batch in Shuffle(2, 7, there_is_room, flushes=False, alone=True).rows(iter(enumerate(sent))):
        for row in range(len(batch)):
            part, *columns = (column[row] for column in batch.columns)
            assert len(columns[2].as_py()) <= 500
            come[part.as_py()] += orders[part.as_py()].take(*columns)
    for partition, part in enumerate(ids):
        assert [(number, bytes(share)) for number, [share] in come[part]] == [
            (number, pack_share(shares[partition])) for number, shares in enumerate(sent)
        ]


def test_rows_wait_for_room_for_all_their_blocks():
    asked = []
    shuffle = Shuffle(2, 0, lambda *request: asked.append(request), flushes=False, alone=False)
    list(shuffle.rows(blocks(5, 20_000)))
    record = len(SequencedBlock(0, 0, 0).pack())
    assert asked == [(0, 1, 4 * (20_000 + record)), (2, 3, 4 * (20_000 + record)), (4, 4, 2 * (20_000 + record))]
