"""The ledger: what was delivered is known forever, what was not is not."""

import errno
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.processes import run_python

from wallaroo.engine.delivery.ledger import Ledger, Part
from wallaroo.files import write_atomically


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger"


def reopened(path):
    ledger = Ledger(path)
    ledger.close()
    return ledger


def test_an_empty_ledger_has_nothing(path):
    ledger = reopened(path)
    assert not ledger.has("sink", 0)


def test_what_was_recorded_is_known_before_and_after_reopening(path):
    ledger = Ledger(path)
    for block in range(3):
        ledger.record("127.0.0.1:7002", block)
    ledger.record("other sink", 7)
    ledger.close()
    for known in (ledger, reopened(path), reopened(path)):
        assert [known.has("127.0.0.1:7002", block) for block in range(5)] == [True, True, True, False, False]
        assert known.has("other sink", 7)
        assert not known.has("other sink", 8)
        assert not known.has("127.0.0.1", 0)


@pytest.mark.parametrize("torn", ["2", "2\t", "2\tsin", "2\tsink", "\x00\x00\x00"])
def test_a_torn_last_line_is_ignored(path, torn):
    path.write_text(f"0\tsink\n1\tsink\n{torn}")
    ledger = Ledger(path)
    assert ledger.has("sink", 1)
    assert not ledger.has("sink", 2)
    ledger.record("sink", 2)
    ledger.close()
    assert reopened(path).has("sink", 2)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["a:1", "b:2", "dead letters"]), st.integers(0, 99)), max_size=8), st.data())
def test_cut_anywhere_it_knows_a_prefix_of_what_was_recorded(tmp_path_factory, records, data):
    path = tmp_path_factory.mktemp("ledger") / "ledger"
    ledger = Ledger(path)
    for sink, block in records:
        ledger.record(sink, block)
    ledger.close()
    content = path.read_bytes()
    cut = data.draw(st.integers(0, len(content)))
    path.write_bytes(content[:cut])
    known = reopened(path)
    # The first line is the ledger's id.
    last = dict(records[: max(content[:cut].count(b"\n") - 1, 0)])
    for sink in ("a:1", "b:2", "dead letters"):
        assert max((block for block in range(100) if known.has(sink, block)), default=None) == last.get(sink)


def test_the_file_stays_short(path):
    path.write_text("".join(f"{block}\tsink\n" for block in range(1000)))
    assert reopened(path).has("sink", 999)
    assert path.read_text().splitlines()[1:] == ["999\tsink"]


def test_a_long_run_rewrites_the_file_periodically(path):
    ledger = Ledger(path)
    sink = "s" * 1000
    sizes = []
    for block in range(3000):
        ledger.record(sink, block)
        sizes.append(path.stat().st_size)
    ledger.close()
    assert max(sizes) < 1.1 * (1 << 20)
    assert sum(later < earlier for earlier, later in pairwise(sizes)) == 2
    assert reopened(path).has(sink, 2999)
    assert [each.name for each in path.parent.iterdir()] == ["ledger"]


def test_a_rewrite_that_fails_half_way_leaves_a_ledger_that_is_written_to(path, monkeypatch):
    def replace_and_fail(path, text):
        write_atomically(path, text)
        raise OSError(errno.EIO, "Input/output error")

    ledger = Ledger(path)
    monkeypatch.setattr("wallaroo.engine.delivery.ledger._REWRITE_AT_BYTES", 100)
    monkeypatch.setattr("wallaroo.engine.delivery.ledger.write_atomically", replace_and_fail)
    for block in range(100):
        ledger.record("sink", block)
    ledger.close()
    monkeypatch.undo()
    assert reopened(path).has("sink", 99)


def test_how_much_of_a_block_was_sent_is_known_until_another_block_is(path):
    ledger = Ledger(path)
    ledger.record("sink", 4)
    ledger.record_part("sink", Part(5, 100, 7))
    ledger.record_part("sink", Part(5, 300, 9))
    ledger.close()
    for known in (ledger, reopened(path), reopened(path)):
        assert known.part("sink", 5) == (5, 300, 9)
        assert known.part("sink", 6) == (6, 0, 0)
        assert known.part("other", 5) == (5, 0, 0)
        assert known.has("sink", 4)
        assert not known.has("sink", 5)
    ledger = Ledger(path)
    ledger.record("sink", 5)
    ledger.close()
    assert reopened(path).has("sink", 5)
    assert path.read_text().splitlines()[1:] == ["5\tsink"]


@pytest.mark.parametrize("torn", ["5\tsink\t1", "5\tsink\t100\t", "5\tsink\t100\t7"])
def test_an_incomplete_record_is_ignored(path, torn):
    path.write_text(f"4\tsink\n5\tsink\t10\t3\n{torn}")
    assert reopened(path).part("sink", 5) == (5, 10, 3)


def test_its_id_lasts_as_long_as_the_file(path):
    first = reopened(path).id
    assert reopened(path).id == first
    ledger = Ledger(path)
    for block in range(3000):
        ledger.record("s" * 1000, block)
    ledger.close()
    assert reopened(path).id == first
    path.unlink()
    assert reopened(path).id != first


def test_a_full_disk_leaves_no_partial_line(path):
    limited = """
import resource, signal, sys
from pathlib import Path
from wallaroo.engine.delivery.ledger import Ledger
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
ledger = Ledger(Path(sys.argv[1]))
block = 0
try:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
    while True:
        ledger.record("sink", block)
        block += 1
except OSError:
    pass
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
ledger.record("other", block)
print(block)
"""
    failed_at = int(run_python("-c", limited, path).stdout)
    ledger = reopened(path)
    assert ledger.has("sink", failed_at - 1)
    assert not ledger.has("sink", failed_at)
    assert ledger.has("other", failed_at)
    assert not ledger.has("other", failed_at + 1)


def test_space_is_reserved_before_a_block_is_sent(path):
    ledger = Ledger(path)
    ledger.make_room()
    assert path.stat().st_blocks * 512 >= 64 << 10
    for block in range(2000):
        ledger.make_room()
        ledger.record("sink", block)
    assert path.stat().st_blocks * 512 >= path.stat().st_size + (60 << 10)
    ledger.close()
    assert reopened(path).has("sink", 1999)
