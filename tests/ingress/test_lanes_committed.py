"""The committed positions in a source's folder."""

from wallaroo.ingress.lanes import note_committed, read_committed


def test_each_lane_has_its_own_position(tmp_path):
    assert read_committed(tmp_path) == {}
    note_committed(tmp_path, {0: 7})
    assert (tmp_path / "committed").read_bytes() == b"%020d\n" % 7
    assert read_committed(tmp_path) == {0: 7}
    note_committed(tmp_path, {200: 2**63, 3: 5})
    note_committed(tmp_path, {3: 6})
    assert read_committed(tmp_path) == {0: 7, 3: 6, 200: 2**63}


def test_entries_that_cannot_be_parsed_are_ignored(tmp_path):
    note_committed(tmp_path, {0: 7, 1: 8, 2: 9})
    content = bytearray((tmp_path / "committed").read_bytes())
    content[32] = ord("?")
    (tmp_path / "committed").write_bytes(content[:-1])
    assert read_committed(tmp_path) == {0: 7}
