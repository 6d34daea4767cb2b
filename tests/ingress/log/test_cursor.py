"""A cursor gives what a reader gives, whatever the writer does meanwhile."""

import random
from itertools import pairwise
from pathlib import Path

import pytest

from wallaroo.ingress.log import reader as reader_module
from wallaroo.ingress.log.cursor import LogCursor
from wallaroo.ingress.log.format import LogCorruptError, note_lost
from wallaroo.ingress.log.reader import LogReader
from wallaroo.ingress.log.writer import LogWriter


@pytest.mark.parametrize("seed", range(6))
def test_ranges_in_turn_are_as_a_reader_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(reader_module, "PIECE_BYTES", 300)
    chance = random.Random(seed)
    cursors = [LogCursor(tmp_path), LogCursor(tmp_path)]
    reader = LogReader(tmp_path)
    begin = 0
    with LogWriter(tmp_path, segment_bytes=4000) as log:
        for turn in range(300):
            for _ in range(chance.choice([1, 1, 1, 2, 30])):
                log.append([chance.randbytes(chance.randrange(60)) for _ in range(chance.randrange(1, 9))])
            cursor = cursors[turn % 2]
            assert list(cursor.read(begin, log.end)) == list(reader.read(begin, log.end))
            if not chance.randrange(10):
                # A block that is computed again.
                assert list(cursor.read(begin, log.end)) == list(reader.read(begin, log.end))
            begin = log.end
            if not chance.randrange(20):
                log.delete_before(begin)
                # Where nothing was appended behind them, segments are gone that a cursor has open.
        assert log.end == begin


def test_lost_messages_are_left_out_and_damaged_ones_reported(tmp_path: Path) -> None:
    with LogWriter(tmp_path) as log:
        borders = [0, *(log.append([b"%d" % number] * 5) for number in range(20))]
    cursor = LogCursor(tmp_path)
    for low, high in pairwise(borders[:6]):
        assert len(list(cursor.read(low, high))) == 1
    [data] = tmp_path.glob("*.data")
    content = bytearray(data.read_bytes())
    content[32] ^= 1  # In the seventh block of messages.
    data.write_bytes(content)
    with pytest.raises(LogCorruptError, match="30 to 35 do not match"):
        list(cursor.read(25, 40))
    note_lost(tmp_path, 30, 35)
    assert [first for first, _ in cursor.read(25, 40)] == [25, 35]
    assert [messages for _, messages in cursor.read(40, 45)] == [[b"8"] * 5]
    with pytest.raises(LogCorruptError, match="is missing"):
        list(cursor.read(95, 105))
    with pytest.raises(LogCorruptError, match="is not where a block of messages"):
        list(cursor.read(46, 50))
    cursor.close()
    assert [messages for _, messages in cursor.read(95, 100)] == [[b"19"] * 5]
