"""What Spark has written down of a batch."""

import json

import pytest

from wallaroo.engine.directory.batch_ranges import BatchRanges


@pytest.fixture
def write(tmp_path):
    """Write down where a batch ends, as Spark does."""

    def write_batch(batch, **ends):
        (tmp_path / "offsets").mkdir(exist_ok=True)
        metadata = json.dumps({"batchWatermarkMs": 0, "conf": {}})
        offsets = json.dumps({"nudges": batch, "sources": ends})
        (tmp_path / "offsets" / str(batch)).write_text(f"v1\n{metadata}\n{offsets}")

    return write_batch


def test_a_batch_goes_from_the_end_of_the_one_before_to_its_own(write, tmp_path):
    write(0, one=5)
    write(1, one=5, two=7)
    write(2, one=9, two=7)
    ranges = BatchRanges(tmp_path)
    assert ranges.of(0) == {"one": (0, 5)}
    assert ranges.of(1) == {"one": (5, 5), "two": (0, 7)}
    assert ranges.of(2) == {"one": (5, 9), "two": (7, 7)}
    assert [ranges.size(batch) for batch in range(3)] == [5, 7, 4]


def test_what_is_not_there_or_damaged_is_not_known(write, tmp_path):
    write(4, one=5)
    write(5, one=6)
    (tmp_path / "offsets" / "6").write_text("v1\n{}\n")
    ranges = BatchRanges(tmp_path)
    assert [ranges.of(batch) for batch in (4, 5, 6, 7)] == [{}, {"one": (5, 6)}, {}, {}]
    assert ranges.size(6) == 0
