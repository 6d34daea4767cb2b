"""Damage in the middle of a log: it is named, nothing is skipped silently, and one can continue without it."""

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wallaroo.ingress.log import LogCorruptError, LogReader, LogWriter
from wallaroo.ingress.log.format import RECORD_SIZE, lost_ranges, segment_paths, segment_starts
from wallaroo.ingress.log.repair import skip_damaged

KINDS = ("data", "ends", "blocks")


def message(index):
    return b"message %d " % index * (1 + index % 3)


def fill(directory, blocks, segment_bytes=10_000):
    """Append blocks of so many messages each, and return how many messages that are."""
    with LogWriter(directory, segment_bytes=segment_bytes) as writer:
        for size in blocks:
            writer.append([message(writer.end + each) for each in range(size)])
        return writer.end


def flip(path, position, bit=0):
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)


def present(directory):
    """Return the messages that can be read, by their index."""
    reader = LogReader(directory)
    start = segment_starts(directory)[0]
    ranges = reader.present(start, reader.end())
    pieces = (piece for low, high in ranges for piece in reader.read(low, high))
    return {first + each: payload for first, payloads in pieces for each, payload in enumerate(payloads)}


def in_words(texts):
    """Return the indices that are said to be lost."""
    lost = set()
    for text in texts:
        if found := re.search(r"without message (\d+) that", text):
            lost.add(int(found[1]))
        else:
            number, first, last = re.search(r"without (\d+) messages, (\d+) to (\d+), that", text).groups()
            assert int(number) == int(last) - int(first) + 1
            lost |= set(range(int(first), int(last) + 1))
    return lost


@pytest.mark.parametrize("kind", KINDS)
def test_damage_before_whole_messages_is_no_torn_end(tmp_path, kind):
    fill(tmp_path, [4, 4, 4, 4])
    path = getattr(segment_paths(tmp_path, 0), kind)
    size = path.stat().st_size
    flip(path, size * 3 // 8)
    with pytest.raises(LogCorruptError) as caught:
        LogWriter(tmp_path)
    for words in (path.name, "messages from 4 to 8 do not match", "--skip-damaged"):
        assert words in str(caught.value)
    assert path.stat().st_size == size


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_messages_can_be_skipped(tmp_path, kind):
    fill(tmp_path, [4, 4, 4, 4])
    path = getattr(segment_paths(tmp_path, 0), kind)
    flip(path, path.stat().st_size * 3 // 8)
    before = path.read_bytes()
    (told,) = skip_damaged(tmp_path)
    assert "continues without 4 messages, 4 to 7, that cannot be read" in told
    assert str(tmp_path / "damaged") in told
    assert lost_ranges(tmp_path) == [(4, 8)]
    kept = (tmp_path / "damaged" / f"4-8.{kind}").read_bytes()
    sizes = {"data": [len(message(index)) for index in range(8)], "ends": [4] * 8, "blocks": [RECORD_SIZE // 4] * 8}[
        kind
    ]
    assert kept == before[sum(sizes[:4]) : sum(sizes)]
    assert skip_damaged(tmp_path) == []
    with LogWriter(tmp_path) as writer:
        assert writer.dropped == []
        assert writer.append([message(16)]) == 17
    assert present(tmp_path) == {index: message(index) for index in range(17) if not 4 <= index < 8}


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_messages_that_were_processed_are_not_reported_as_lost(tmp_path, kind):
    fill(tmp_path, [4, 4, 4, 4])
    path = getattr(segment_paths(tmp_path, 0), kind)
    flip(path, path.stat().st_size * 3 // 8)
    with (tmp_path / "committed").open("wb") as file:
        file.write(b"%020d\n" % 8)
    with LogWriter(tmp_path) as writer:
        assert (writer.dropped, writer.end) == ([], 16)
        assert writer.bytes_after(8) == sum(len(message(index)) for index in range(8, 16))
    reader = LogReader(tmp_path)
    assert [payload for _, payloads in reader.read(8, 16) for payload in payloads] == list(map(message, range(8, 16)))


def test_a_missing_segment_can_be_skipped(tmp_path):
    fill(tmp_path, [3, 3, 3], segment_bytes=1)
    segment_paths(tmp_path, 3).unlink()
    (told,) = skip_damaged(tmp_path)
    assert "3 messages, 3 to 5, that cannot be read; nothing is left of them" in told
    LogWriter(tmp_path).close()
    assert present(tmp_path) == {index: message(index) for index in (0, 1, 2, 6, 7, 8)}


def all_ranges(directory, most):
    """Return where ranges of at most so many bytes end, and the messages in them."""
    reader = LogReader(directory)
    ends, found = [0], {}
    while ends[-1] < reader.end():
        start = ends[-1]
        ends.append(reader.limit(start, most, reader.end()))
        assert ends[-1] > start
        for low, high in reader.present(start, ends[-1]):
            for first, payloads in reader.read(low, high):
                found.update(enumerate(payloads, first))
    return ends[1:], found


@pytest.mark.parametrize("most", [1, 70, 1 << 20])
def test_ranges_continue_after_a_full_segment_that_lost_its_last_records(tmp_path, most):
    end = fill(tmp_path, [2, 2, 2, 2, 2, 2], segment_bytes=200)
    starts = segment_starts(tmp_path)
    assert len(starts) > 1
    with segment_paths(tmp_path, 0).blocks.open("r+b") as file:
        file.truncate(RECORD_SIZE)
    with pytest.raises(LogCorruptError):
        LogWriter(tmp_path)
    assert len(skip_damaged(tmp_path)) == 1
    LogWriter(tmp_path).close()
    ends, found = all_ranges(tmp_path, most)
    assert found == {index: message(index) for index in range(end) if not 2 <= index < starts[1]}
    assert (len(ends) == 1) == (most == 1 << 20)


def test_a_range_whose_messages_are_all_lost_is_passed(tmp_path):
    fill(tmp_path, [3])
    with LogWriter(tmp_path) as writer:
        writer.advance_to(9)
    reader = LogReader(tmp_path)
    assert (reader.limit(0, 1), reader.limit(0, 1000), reader.limit(3, 1), reader.limit(5, 1)) == (3, 9, 9, 9)


def test_an_undamaged_log_is_not_changed(tmp_path):
    fill(tmp_path, [3, 1, 5], segment_bytes=100)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert skip_damaged(tmp_path) == []
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("torn", ["3", "3 1", "3 12", "\0\0\0\0"])
def test_a_torn_record_of_a_loss_is_ignored_and_affects_no_other(tmp_path, torn):
    fill(tmp_path, [3])
    (tmp_path / "lost").write_text(f"1 2\n{torn}")
    assert lost_ranges(tmp_path) == [(1, 2)]
    with LogWriter(tmp_path) as writer:
        writer.advance_to(9)
    assert lost_ranges(tmp_path) == [(1, 2), (3, 9)]


@settings(deadline=None, max_examples=60)
@given(
    blocks=st.lists(st.integers(1, 6), min_size=1, max_size=12),
    segment_bytes=st.sampled_from([1, 150, 10_000]),
    flips=st.lists(
        st.tuples(st.integers(0, 30), st.sampled_from(KINDS), st.floats(0, 1), st.integers(0, 7)), max_size=4
    ),
)
def test_wherever_bits_are_flipped_the_rest_is_read_and_what_is_lost_is_reported(
    tmp_path_factory, blocks, segment_bytes, flips
):
    directory = tmp_path_factory.mktemp("log")
    end = fill(directory, blocks, segment_bytes)
    everything = {index: message(index) for index in range(end)}
    for segment, kind, place, bit in flips:
        starts = segment_starts(directory)
        path = getattr(segment_paths(directory, starts[segment % len(starts)]), kind)
        size = path.stat().st_size
        flip(path, min(int(place * size), size - 1), bit)

    told = in_words(skip_damaged(directory))
    with LogWriter(directory) as writer:
        torn_off = set(range(writer.end, end))
        assert bool(torn_off) == bool(writer.dropped)
    left = present(directory)
    assert left == {index: everything[index] for index in everything.keys() - told - torn_off}
    assert skip_damaged(directory) == []
    # A flipped bit costs its block, and the block before or behind it where their border was.
    hurt = sorted(blocks, reverse=True)[: 3 * len(flips)]
    assert len(told) + len(torn_off) <= sum(hurt)


@settings(deadline=None, max_examples=40)
@given(blocks=st.lists(st.integers(1, 6), min_size=2, max_size=12), seed=st.integers(0, 1_000_000))
def test_nothing_is_skipped_silently(tmp_path_factory, blocks, seed):
    directory = tmp_path_factory.mktemp("log")
    end = fill(directory, blocks, segment_bytes=150)
    choose = random.Random(seed)
    path = getattr(segment_paths(directory, choose.choice(segment_starts(directory))), choose.choice(KINDS))
    flip(path, choose.randrange(path.stat().st_size), choose.randrange(8))
    try:
        with LogWriter(directory) as writer:
            kept, dropped = writer.end, writer.dropped
        found = present(directory)
    except LogCorruptError:
        return  # The message says what to do: see above.
    assert found == {index: message(index) for index in range(kept)}
    assert kept == end or dropped
