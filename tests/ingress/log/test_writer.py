"""Writing and reading a log."""

from __future__ import annotations

import resource
import stat
from collections import deque
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wallaroo.errors import WallarooError
from wallaroo.ingress.log import LogCorruptError, LogReader, LogWriter, writer
from wallaroo.ingress.log.format import RECORD_SIZE, segment_paths, segment_starts

blocks_of_payloads = st.lists(st.lists(st.binary(max_size=40), min_size=1, max_size=5), max_size=12)


def read_all(reader, start, end):
    found = []
    for first, payloads in reader.read(start, end):
        assert first == start + len(found)
        found += payloads
    return found


@contextmanager
def written(blocks, segment_bytes=64 << 20):
    """Yield a writer and a reader of a log with these blocks."""
    with TemporaryDirectory() as directory, LogWriter(Path(directory), segment_bytes=segment_bytes) as writer:
        for block in blocks:
            writer.append(block)
        yield writer, LogReader(Path(directory))


def borders_of(blocks):
    borders = [0]
    for block in blocks:
        borders.append(borders[-1] + len(block))
    return borders


def test_what_is_appended_is_read(tmp_path):
    reader = LogReader(tmp_path / "log")
    assert reader.end() == 0
    with LogWriter(tmp_path / "log") as writer:
        assert writer.append([b"one", b"", memoryview(b"three")]) == 3
        assert writer.append([]) == 3
        assert reader.end() == 3
        assert writer.append([b""]) == 4
        assert (writer.start, writer.end, writer.data_bytes) == (0, 4, 8)
        assert read_all(reader, 0, 4) == [b"one", b"", b"three", b""]
        assert read_all(reader, 3, 4) == [b""]
        assert read_all(reader, 2, 2) == []


def test_only_the_owner_may_look_into_a_log(tmp_path):
    with LogWriter(tmp_path / "log") as writer:
        writer.append([b"secret"])
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "log").iterdir()} == {0o600}


@settings(max_examples=60, deadline=None)
@given(blocks_of_payloads, st.sampled_from([1, 50, 64 << 20]), st.data())
def test_any_range_on_borders_is_read_as_it_was_written(blocks, segment_bytes, data):
    messages = [payload for block in blocks for payload in block]
    with written(blocks, segment_bytes) as (writer, reader):
        assert writer.end == reader.end() == len(messages)
        borders = borders_of(blocks)
        start, end = sorted([data.draw(st.sampled_from(borders)), data.draw(st.sampled_from(borders))])
        assert read_all(reader, start, end) == messages[start:end]
        assert reader.bytes_between(start, end) == sum(map(len, messages[start:end]))
        assert writer.bytes_after(start) == sum(map(len, messages[start:]))


@settings(max_examples=60, deadline=None)
@given(blocks_of_payloads, st.sampled_from([1, 50, 64 << 20]), st.integers(1, 6), st.data())
def test_cut_covers_the_range_in_even_parts(blocks, segment_bytes, parts, data):
    borders = borders_of(blocks)
    start, end = sorted([data.draw(st.sampled_from(borders)), data.draw(st.sampled_from(borders))])

    def weight(low, high):
        inside = [block for first, block in zip(borders, blocks, strict=False) if low <= first < high]
        return sum(4 + len(payload) for block in inside for payload in block)

    with written(blocks, segment_bytes) as (_, reader):
        ranges = reader.cut(start, end, parts)
    assert len(ranges) <= parts
    assert all(low < high for low, high in ranges)
    assert set(sum(ranges, ())) <= set(borders)
    if start == end:
        assert ranges == []
        return
    assert [ranges[0][0], *(high for _, high in ranges)] == [*(low for low, _ in ranges), end]
    assert ranges[0][0] == start
    largest = max(weight(low, high) for low, high in pairwise(borders))
    assert all(weight(low, high) <= weight(start, end) / parts + largest + 1 for low, high in ranges)


@settings(max_examples=60, deadline=None)
@given(blocks_of_payloads, st.sampled_from([1, 50, 64 << 20]), st.integers(0, 300), st.data())
def test_limit_is_the_last_border_within_the_bytes(blocks, segment_bytes, max_bytes, data):
    borders = borders_of(blocks)
    messages = [payload for block in blocks for payload in block]
    start, end = sorted([data.draw(st.sampled_from(borders)), data.draw(st.sampled_from(borders))])
    bounded = data.draw(st.booleans())
    with written(blocks, segment_bytes) as (_, reader):
        found = reader.limit(start, max_bytes, end if bounded else None)
    allowed = [border for border in borders if start <= border <= (end if bounded else len(messages))]
    fitting = [border for border in allowed if sum(4 + len(m) for m in messages[start:border]) <= max_bytes]
    assert found == max(fitting[-1], *allowed[1:2], start)


def test_a_piece_is_not_much_larger_than_half_a_mebibyte(tmp_path):
    with LogWriter(tmp_path) as writer:
        for _ in range(50):
            writer.append([bytes(100_000)])
        writer.append([bytes(3_000_000)])
    sizes = [sum(map(len, payloads)) for _, payloads in LogReader(tmp_path).read(0, 51)]
    assert sizes == [500_000] * 10 + [3_000_000]


def files_bytes(directory):
    return sum(path.stat().st_size for path in directory.iterdir() if path.suffix in {".data", ".ends", ".blocks"})


def test_segments_of_the_log_are_deleted_when_they_are_not_needed(tmp_path):
    with LogWriter(tmp_path, segment_bytes=100) as writer:
        for number in range(10):
            writer.append([b"%050d" % number])
        assert segment_starts(tmp_path) == [0, 2, 4, 6, 8]
        assert writer.disk_bytes == files_bytes(tmp_path)
        assert writer.delete_before(5) == 2
        assert (writer.start, writer.end, writer.data_bytes) == (4, 10, 300)
        assert writer.disk_bytes == files_bytes(tmp_path)
        assert writer.delete_before(5) == 0
        assert writer.bytes_after(5) == 250
        assert writer.delete_before(10) == 2
        assert writer.bytes_after(10) == 0
        reader = LogReader(tmp_path)
        assert read_all(reader, 8, 10) == [b"%050d" % 8, b"%050d" % 9]
        with pytest.raises(LogCorruptError, match="the log begins with 8"):
            read_all(reader, 0, 10)
    with LogWriter(tmp_path, segment_bytes=100) as writer:
        assert (writer.start, writer.end, writer.committed) == (8, 10, 10)
        assert writer.disk_bytes == files_bytes(tmp_path)
        # The next segment is reason enough to delete the last one, which is processed.
        assert writer.append([b"more"]) == 11
        assert segment_starts(tmp_path) == [10]
        assert writer.disk_bytes == files_bytes(tmp_path)


def test_empty_messages_fill_segments_as_well(tmp_path):
    with LogWriter(tmp_path, segment_bytes=100) as writer:
        for _ in range(10):
            writer.append([b""] * 20)
        assert len(segment_starts(tmp_path)) > 3
        ranges = LogReader(tmp_path).cut(0, 200, 2)
    assert ranges == [(0, 100), (100, 200)]


def test_a_reader_moves_from_segment_to_segment_while_the_writer_appends(tmp_path):
    reader = LogReader(tmp_path)
    position = 0
    with LogWriter(tmp_path, segment_bytes=30) as writer:
        for number in range(40):
            writer.append([b"%d" % number] * 3)
            end = reader.end()
            assert read_all(reader, position, end) == [b"%d" % number] * 3
            position = end
            writer.delete_before(position)
    assert position == 120


@pytest.mark.parametrize("kind", ["data", "ends"])
def test_a_flipped_bit_is_found(tmp_path, kind):
    with LogWriter(tmp_path) as writer:
        writer.append([b"good"] * 10)
        writer.append([b"evil"] * 10)
    path = getattr(segment_paths(tmp_path, 0), kind)
    content = bytearray(path.read_bytes())
    content[len(content) * 3 // 4] ^= 4
    path.write_bytes(content)
    reader = LogReader(tmp_path)
    assert read_all(reader, 0, 10) == [b"good"] * 10
    with pytest.raises(LogCorruptError) as caught:
        read_all(reader, 0, 20)
    for words in (path.name, "messages from 10 to 20", "do not match their checksum"):
        assert words in str(caught.value)


def test_a_flipped_bit_in_a_block_record_is_found(tmp_path):
    with LogWriter(tmp_path) as writer:
        for _ in range(3):
            writer.append([b"four"] * 10)
    path = segment_paths(tmp_path, 0).blocks
    content = bytearray(path.read_bytes())
    content[RECORD_SIZE + 3] ^= 1
    path.write_bytes(content)
    with pytest.raises(LogCorruptError, match=r"blocks is damaged.* from message 10 to message 19"):
        read_all(LogReader(tmp_path), 0, 30)


def test_positions_outside_the_log_or_inside_a_block_are_refused(tmp_path):
    reader = LogReader(tmp_path)
    with pytest.raises(LogCorruptError, match="there is no log"):
        read_all(reader, 0, 5)
    with LogWriter(tmp_path) as writer:
        writer.append([b"x"] * 10)
    with pytest.raises(LogCorruptError, match="message 10 is missing: the log ends before message 10"):
        read_all(reader, 0, 20)
    with pytest.raises(LogCorruptError, match="message 5 is not where a block of messages ends"):
        read_all(reader, 0, 5)
    with pytest.raises(LogCorruptError, match="message 5 is not where a block of messages begins"):
        read_all(reader, 5, 10)
    segment_paths(tmp_path, 0).data.unlink()
    with pytest.raises(LogCorruptError, match=r"from 0 to 10 cannot be read: the log file .*data is gone"):
        read_all(reader, 0, 10)


def test_a_second_writer_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "_LOCK_SECONDS", 0.0)
    with LogWriter(tmp_path), pytest.raises(WallarooError, match="Another process already writes"):
        LogWriter(tmp_path)
    LogWriter(tmp_path).close()


@pytest.mark.parametrize("limit", [41, 60, 500])
def test_a_full_disk_leaves_the_log_as_it_was(tmp_path, limit):
    """A limit on the size of files stands for the disk; the limits are hit by different ones of the three."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with LogWriter(tmp_path) as writer:
        writer.append([b"x"] * 40)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            with pytest.raises(OSError, match="too large"):
                deque(map(writer.append, [[b"y"] * 40] * 20), maxlen=0)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        before = writer.end
        reader = LogReader(tmp_path)
        assert reader.end() == before
        sizes = [path.stat().st_size for path in segment_paths(tmp_path, 0)]
        assert sizes == [before, 4 * before, RECORD_SIZE * before // 40]
        assert writer.append([b"z"] * 5) == before + 5
        assert read_all(reader, 0, before + 5) == [b"x"] * 40 + [b"y"] * (before - 40) + [b"z"] * 5


def test_an_index_that_readers_know_is_not_given_again(tmp_path):
    with LogWriter(tmp_path) as writer:
        writer.append([b"x"] * 10)
        assert not writer.advance_to(10)
        assert writer.advance_to(50)
        assert (writer.start, writer.end, writer.bytes_after(50)) == (0, 50, 0)
        writer.append([b"y"])
    with LogWriter(tmp_path) as writer:
        assert (writer.start, writer.end) == (0, 51)
    reader = LogReader(tmp_path)
    assert reader.present(0, 51) == [(0, 10), (50, 51)]
    assert (reader.present(3, 30), reader.present(20, 40), reader.present(50, 51)) == ([(3, 10)], [], [(50, 51)])
    assert read_all(reader, 0, 10) == [b"x"] * 10
    assert read_all(reader, 50, 51) == [b"y"]


def test_an_index_that_was_processed_is_not_given_again_by_an_empty_log(tmp_path):
    with LogWriter(tmp_path) as writer:
        writer.append([b"x"] * 50)
        writer.delete_before(50)
    for path in tmp_path.iterdir():
        if path.suffix:
            path.unlink()
    with LogWriter(tmp_path) as writer:
        assert (writer.start, writer.end) == (50, 50)
