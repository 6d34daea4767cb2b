"""The ledger: what was delivered is known for ever, what was not is not."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wallaroo.engine.ledger import Ledger


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
    for batch in range(3):
        ledger.record("127.0.0.1:7002", batch)
    ledger.record("other sink", 7)
    ledger.close()
    for known in (ledger, reopened(path), reopened(path)):
        assert [known.has("127.0.0.1:7002", batch) for batch in range(5)] == [True, True, True, False, False]
        assert known.has("other sink", 7)
        assert not known.has("other sink", 8)
        assert not known.has("127.0.0.1", 0)


@pytest.mark.parametrize("torn", ["2", "2\t", "2\tsin", "2\tsink", "\x00\x00\x00"])
def test_a_torn_last_line_counts_for_nothing(path, torn):
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
    for sink, batch in records:
        ledger.record(sink, batch)
    ledger.close()
    content = path.read_bytes()
    cut = data.draw(st.integers(0, len(content)))
    path.write_bytes(content[:cut])
    known = reopened(path)
    last = dict(records[: content[:cut].count(b"\n")])
    for sink in ("a:1", "b:2", "dead letters"):
        assert max((batch for batch in range(100) if known.has(sink, batch)), default=None) == last.get(sink)


def test_the_file_stays_short(path):
    path.write_text("".join(f"{batch}\tsink\n" for batch in range(1000)))
    assert reopened(path).has("sink", 999)
    assert path.read_text() == "999\tsink\n"


def test_a_long_run_rewrites_the_file_now_and_then(path):
    ledger = Ledger(path)
    sink = "s" * 1000
    sizes = []
    for batch in range(3000):
        ledger.record(sink, batch)
        sizes.append(path.stat().st_size)
    ledger.close()
    assert max(sizes) < 1.1 * (1 << 20)
    assert sum(later < earlier for earlier, later in pairwise(sizes)) == 2
    assert reopened(path).has(sink, 2999)
    assert [each.name for each in path.parent.iterdir()] == ["ledger"]
