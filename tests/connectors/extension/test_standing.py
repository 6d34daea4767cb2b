"""What an application has of scripts and partitions, whatever happens to its log."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wallaroo.connectors.extension.logged_frames import FrameReader, Note
from wallaroo.connectors.extension.source import notes_in
from wallaroo.connectors.extension.standing import Standing
from wallaroo.errors import DirectoryError
from wallaroo.ingress.log import LogReader, LogWriter
from wallaroo.ingress.log.cursor import LogCursor
from wallaroo.ingress.log.format import RECORD_SIZE, BlockIndex, segment_paths, segment_starts

SCRIPTS, PARTITIONS = "xyz", "abcde"


class Logged:
    """A log with its notes, and what plain Python would say that it has."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.standing = Standing(self.folder)
        self.log = LogWriter(self.folder, segment_bytes=400, before_segment=self.standing.save)
        self.frames = []
        """For each frame the log's end after it, its note, and its messages."""

    def append(self, script, partitions, count):
        number = self.standing.number(script) + count
        sequences = {each: (self.standing.sequence(each) or 0) + 1 for each in partitions}
        note = Note(count, script, number, sequences)
        messages = [b"%d of %d" % (index, len(self.frames)) for index in range(count)]
        self.standing.add(note, self.log.end + count)
        self.log.append([note.pack() + messages[0], *messages[1:]])
        self.standing.settle(self.log.end)
        self.frames.append((self.log.end, note, messages))

    def expected(self, end):
        numbers, sequences = {}, {}
        for after, note, _ in self.frames:
            if after <= end:
                numbers[note.script] = note.number
                sequences.update(note.sequences)
        return numbers, sequences


def found(standing):
    numbers = {each: standing.number(each) for each in SCRIPTS}
    sequences = {each: standing.sequence(each) for each in PARTITIONS}
    return {each: number for each, number in numbers.items() if number}, {
        each: sequence for each, sequence in sequences.items() if sequence is not None
    }


steps = st.lists(
    st.tuples(st.sampled_from(SCRIPTS), st.sets(st.sampled_from(PARTITIONS)), st.integers(1, 5)),
    min_size=1,
    max_size=40,
)


@given(steps=steps, committed=st.integers(0, 60), kept=st.floats(0, 1))
def test_wherever_a_power_failure_cuts_the_log_the_standing_is_that_of_what_is_left(steps, committed, kept):
    with TemporaryDirectory() as folder:
        logged = Logged(folder)
        for step in steps:
            logged.append(*step)
        # What is committed was on the disk before, and so was all but the last segment.
        ends = [end for end, _, _ in logged.frames]
        committed = max([0, *(end for end in ends if end <= committed)])
        logged.log.delete_before(committed)
        logged.log.close()
        last = segment_starts(Path(folder))[-1]
        with BlockIndex(Path(folder), last) as blocks:
            least = blocks.find(committed)
            count = least + round((len(blocks) - least) * kept)
        os.truncate(segment_paths(Path(folder), last).blocks, count * RECORD_SIZE)
        with LogWriter(Path(folder)) as log:
            again = Standing(Path(folder))
            again.follow(notes_in(Path(folder), again.position, log.end))
            assert found(again) == logged.expected(log.end)
            assert log.end >= committed


@given(steps=steps)
def test_messages_are_read_without_their_notes(steps):
    with TemporaryDirectory() as folder:
        logged = Logged(folder)
        for step in steps:
            logged.append(*step)
        logged.log.close()
        pieces = FrameReader(LogCursor(Path(folder))).read(0, LogReader(Path(folder)).end())
        assert [each for _, some in pieces for each in some] == [
            message for _, _, messages in logged.frames for message in messages
        ]


def test_what_waits_for_a_full_disk_is_not_in_the_file(tmp_path):
    standing = Standing(tmp_path)
    standing.add(Note(2, "x", 2, {"a": 1}), end=2)
    standing.add(Note(2, "x", 4, {"a": 2, "b": 1}), end=4)
    # The first one is written, and the log continues in a new segment with the second.
    standing.save(2)
    assert (standing.number("x"), standing.sequence("a"), standing.sequence("b")) == (4, 2, 1)
    assert found(Standing(tmp_path)) == ({"x": 2}, {"a": 1})
    standing.settle(4)
    standing.save(4)
    assert found(Standing(tmp_path)) == ({"x": 4}, {"a": 2, "b": 1})


def test_what_was_dropped_because_of_what_waits_is_not_in_the_file(tmp_path):
    standing = Standing(tmp_path)
    standing.add(Note(100, "x", 100, {"a": 100}), end=100)
    standing.has_had("x", 200)
    standing.save(0)
    assert standing.number("x") == 200
    assert found(Standing(tmp_path)) == ({}, {})
    standing.save(100)
    assert found(Standing(tmp_path)) == ({"x": 200}, {"a": 100})


def test_scripts_whose_messages_were_all_dropped_are_forgotten_too(tmp_path):
    standing = Standing(tmp_path)
    for number in range(10_001):
        standing.has_had(f"script {number}", 1)
    assert [standing.number(f"script {number}") for number in (0, 1, 10_000)] == [0, 1, 1]


def test_scripts_that_are_long_gone_are_forgotten(tmp_path):
    standing = Standing(tmp_path)
    for number in range(10_001):
        standing.add(Note(1, f"script {number}", 1, {}), end=number + 1)
        standing.settle(number + 1)
    assert [standing.number(f"script {number}") for number in (0, 1, 10_000)] == [0, 1, 1]


def test_a_file_that_is_damaged_is_reported_with_what_to_do(tmp_path):
    Standing(tmp_path).save(0)
    [file] = tmp_path.iterdir()
    file.write_text("{")
    with pytest.raises(DirectoryError, match="Restore it from a copy, or delete it"):
        Standing(tmp_path)
