"""The sequence of blocks: one order, which survives any crash."""

import json
import struct
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wallaroo.ingress import block_sequence
from wallaroo.ingress.block_sequence import (
    Range,
    SequencedBlock,
    SequenceWriter,
    segment_firsts,
    skip_damaged_blocks,
    truncate_at,
    unpack_block,
)
from wallaroo.ingress.lanes import Lane
from wallaroo.ingress.log.format import LogCorruptError

_NUMBER = st.integers(0, 2**64 - 1)
_SHORT = st.integers(0, 2**16 - 1)
_RANGES = st.lists(st.builds(Range, _SHORT, _NUMBER, _NUMBER, _SHORT), max_size=20).map(tuple)


def _filled(folder: Path, number: int = 10) -> SequenceWriter:
    writer = SequenceWriter(folder, ["words", "orders"])
    for at in range(number):
        writer.append(at, 10, (Range(at % 2, at, at + 2),))
    return writer


def _numbers(writer: SequenceWriter, first: int) -> list[int]:
    return [block.number for block in writer.read_from(first)]


@given(st.builds(SequencedBlock, _NUMBER, _NUMBER, st.integers(0, 2**32 - 1), _RANGES))
def test_a_block_comes_back_as_it_was(block: SequencedBlock) -> None:
    assert unpack_block(block.pack()) == block


def test_blocks_are_numbered_and_read_again_by_the_next_process(tmp_path: Path) -> None:
    _filled(tmp_path).close()
    again = SequenceWriter(tmp_path, ["words", "orders"])
    assert (again.end, again.dropped) == (10, [])
    assert list(again.read_from(8)) == [
        SequencedBlock(8, 8, 10, (Range(0, 8, 10),)),
        SequencedBlock(9, 9, 10, (Range(1, 9, 11),)),
    ]
    assert again.ends == {Lane(0): 10, Lane(1): 11}
    assert again.append(3, 4).number == 10


def test_a_source_keeps_its_number_when_others_are_added_and_removed(tmp_path: Path) -> None:
    _filled(tmp_path).close()
    assert SequenceWriter(tmp_path, ["orders", "quotes"]).names == ["words", "orders", "quotes"]
    assert SequenceWriter(tmp_path, ["words"]).names == ["words", "orders", "quotes"]


@pytest.mark.parametrize("cut", range(1, 44))
def test_a_record_that_a_crash_has_torn_was_never_handed_out(tmp_path: Path, cut: int) -> None:
    _filled(tmp_path).close()
    [file] = tmp_path.glob("*.sequence")
    file.write_bytes(file.read_bytes()[:-cut])
    again = SequenceWriter(tmp_path, ["words", "orders"])
    assert again.end == 9
    assert "not written completely" in again.dropped[0]
    assert again.append(0, 1, (Range(0, 7, 8),)).number == 9
    assert _numbers(again, 0) == list(range(10))


def test_damage_at_the_end_is_cut_off_and_kept(tmp_path: Path) -> None:
    _filled(tmp_path).close()
    [file] = tmp_path.glob("*.sequence")
    whole = file.read_bytes()
    length = len(whole) // 10 - 3
    for at in (5 * length, 2 * length):
        damaged = bytearray(whole)
        damaged[-at] ^= 1
        file.write_bytes(damaged)
        again = SequenceWriter(tmp_path, ["words", "orders"])
        assert 0 < again.end < 9
        [told] = again.dropped
        assert f"kept in {tmp_path / 'damaged'}" in told
        again.close()
        kept = [path.read_bytes() for path in (tmp_path / "damaged").iterdir()]
        assert bytes(damaged[file.stat().st_size :]) in kept
    assert len(kept) == 2


def test_segments_of_the_sequence_are_deleted_when_they_are_not_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_sequence, "SEGMENT_BYTES", 200)
    writer = _filled(tmp_path, 40)
    firsts = segment_firsts(tmp_path)
    assert len(firsts) > 3
    for first in range(41):
        assert _numbers(writer, first) == list(range(first, 40))
    writer.delete_before(firsts[2] + 1)
    assert segment_firsts(tmp_path) == firsts[2:]
    with pytest.raises(LogCorruptError, match=r"Block 0 of the sequence .* damaged or missing"):
        _numbers(writer, 0)
    writer.close()
    again = SequenceWriter(tmp_path, ["words", "orders"])
    assert (again.end, again.ends) == (40, {Lane(0): 40, Lane(1): 41})


def test_no_number_is_given_twice_after_a_power_failure(tmp_path: Path) -> None:
    _filled(tmp_path).close()
    again = SequenceWriter(tmp_path, ["words", "orders"], known=14)
    assert "those between are lost" in again.dropped[0]
    assert again.append(0, 1).number == 14
    assert [len(block.ranges) for block in again.read_from(9)] == [1, 0, 0, 0, 0, 0]


def test_damage_in_the_middle_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_sequence, "SEGMENT_BYTES", 200)
    writer = _filled(tmp_path, 40)
    file = sorted(tmp_path.glob("*.sequence"))[1]
    data = bytearray(file.read_bytes())
    data[-60] ^= 1
    file.write_bytes(data)
    with pytest.raises(LogCorruptError, match=r"damaged or missing\. .* --skip-damaged"):
        _numbers(writer, 0)
    writer.close()
    [told] = skip_damaged_blocks(tmp_path)
    assert "outputs may be repeated" in told
    again = SequenceWriter(tmp_path, ["words", "orders"], known=40)
    whole = [block for block in again.read_from(0) if block.ranges]
    assert [block.number for block in whole] == list(range(len(whole)))
    assert 0 < len(whole) < 40
    # The messages of what was cut off are to get other blocks.
    assert again.ends == {Lane(each.source): each.end for block in whole for each in block.ranges}
    assert again.append(0, 1).number == 40
    assert skip_damaged_blocks(tmp_path) == []
    assert file.name in {path.name for path in (tmp_path / "damaged").iterdir()}


def test_a_segment_whose_first_line_is_damaged_goes_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_sequence, "SEGMENT_BYTES", 200)
    _filled(tmp_path, 40).close()
    first = min(tmp_path.glob("*.sequence"))
    first.write_bytes(b"?" + first.read_bytes()[1:])
    assert len(skip_damaged_blocks(tmp_path)) == 1
    assert segment_firsts(tmp_path) == []
    assert SequenceWriter(tmp_path, ["words", "orders"], known=12).end == 12


def test_also_if_it_is_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_sequence, "SEGMENT_BYTES", 200)
    _filled(tmp_path, 40).close()
    firsts, last = segment_firsts(tmp_path), max(tmp_path.glob("*.sequence"))
    damaged = b"?" + last.read_bytes()[1:]
    last.write_bytes(damaged)
    with pytest.raises(LogCorruptError, match="--skip-damaged"):
        SequenceWriter(tmp_path, ["words", "orders"])
    assert len(skip_damaged_blocks(tmp_path)) == 1
    assert (tmp_path / "damaged" / last.name).read_bytes() == damaged
    again = SequenceWriter(tmp_path, ["words", "orders"])
    assert _numbers(again, 0) == list(range(firsts[-1]))


@pytest.mark.parametrize("number", [39, 17, 0])
def test_blocks_that_were_never_handed_out_can_be_truncated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(block_sequence, "SEGMENT_BYTES", 200)
    _filled(tmp_path, 40).close()
    truncate_at(tmp_path, number)
    again = SequenceWriter(tmp_path, ["words", "orders"])
    assert (again.end, again.dropped, _numbers(again, 0)) == (number, [], list(range(number)))
    assert again.ends == {Lane(each.source): each.end for block in again.read_from(0) for each in block.ranges}
    assert again.append(0, 1).number == number


def test_blocks_that_come_while_others_are_read_are_not_missing(tmp_path: Path) -> None:
    writer = _filled(tmp_path)
    numbers = []
    for block in writer.read_from(0):
        numbers.append(block.number)
        if block.number in {3, 9}:
            for _ in range(3):
                writer.append(0, 1)
    assert numbers == list(range(16))
    writer.close()


def test_a_segment_that_could_not_be_begun_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_sequence, "SEGMENT_BYTES", 100)
    writer = SequenceWriter(tmp_path, ["words"])
    while len(segment_firsts(tmp_path)) < 2:
        writer.append(0, 1, (Range(0, writer.end, writer.end + 1),))
    before = {path.name for path in tmp_path.iterdir()}

    def no_room(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(block_sequence, "SEGMENT_BYTES", 1)
    with monkeypatch.context() as full:
        full.setattr(block_sequence, "write_atomically", no_room)
        with pytest.raises(OSError, match="No space"):
            writer.append(0, 1)
    assert {path.name for path in tmp_path.iterdir()} == before
    end = writer.append(0, 1).number
    writer.close()
    assert SequenceWriter(tmp_path, ["words"]).end == end + 1


def test_each_lane_has_an_end_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_sequence, "SEGMENT_BYTES", 200)
    writer = SequenceWriter(tmp_path, ["words", "orders"])
    writer.append(0, 1, (Range(1, 7, 9, lane=2), Range(1, 100, 103), Range(0, 0, 4)))
    for at in range(20):
        writer.append(0, 1, (Range(1, 200 + at, 201 + at, lane=65535),))
    writer.close()
    assert len(segment_firsts(tmp_path)) > 1
    expected = {Lane(1, 2): 9, Lane(1, 0): 103, Lane(0, 0): 4, Lane(1, 65535): 220}
    assert SequenceWriter(tmp_path, ["words", "orders"]).ends == expected


def _of_the_first_format(folder: Path, first: int, ends: dict[int, int], blocks: list[SequencedBlock]) -> None:
    """Write a segment as it was before there were lanes: without them, and without the name of the format."""
    records = []
    for block in blocks:
        head = struct.pack("<QQIH", block.number, block.time_ns, block.size, len(block.ranges))
        record = head + b"".join(struct.pack("<HQQ", each.source, each.first, each.end) for each in block.ranges)
        records.append(record + struct.pack("<I", crc32(record)))
    opening = json.dumps({"ends": {str(source): end for source, end in ends.items()}}).encode() + b"\n"
    (folder / f"{first:020d}.sequence").write_bytes(opening + b"".join(records))


@pytest.mark.parametrize("last", [0, 3])
def test_segments_of_an_earlier_version_are_read_and_followed_by_others(tmp_path: Path, last: int) -> None:
    blocks = [
        SequencedBlock(at, at, 10, (Range(at % 2, at, at + 2), Range(0, at + 2, at + 3))) for at in range(8 + last)
    ]
    (tmp_path / "sources.json").write_text('["words", "orders"]')
    _of_the_first_format(tmp_path, 0, {}, blocks[:8])
    ends = {each.source: each.end for block in blocks[:8] for each in block.ranges}
    _of_the_first_format(tmp_path, 8, ends, blocks[8:])
    writer = SequenceWriter(tmp_path, ["words", "orders"])
    assert (writer.end, writer.dropped, list(writer.read_from(0))) == (8 + last, [], blocks)
    assert writer.ends == {Lane(each.source): each.end for block in blocks for each in block.ranges}
    blocks.append(writer.append(1, 2, (Range(1, 50, 60, lane=4),)))
    writer.close()
    again = SequenceWriter(tmp_path, ["words", "orders"])
    assert list(again.read_from(0)) == blocks
    assert again.ends[Lane(1, 4)] == 60
    assert segment_firsts(tmp_path) == [0, 8] if last == 0 else [0, 8, 11]
    truncate_at(tmp_path, 5)
    assert _numbers(SequenceWriter(tmp_path, ["words", "orders"]), 0) == list(range(5))
