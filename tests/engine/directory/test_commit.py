"""The commit: states and their place in the sequence, replaced as one."""

import json

import pytest

from wallaroo.engine.directory.commit import Commits
from wallaroo.engine.stages.live_state import Bucket, StateLog
from wallaroo.engine.stages.state_files import StateFiles
from wallaroo.engine.transport.serializer import Serializer
from wallaroo.errors import DirectoryError
from wallaroo.ingress.lanes import Lane


@pytest.fixture
def place(tmp_path):
    return tmp_path / "commit.json", tmp_path / "states"


def written(place, commits, *contents):
    """Return heads whose entries are in a file that has just been written, one bucket for each content."""
    files = StateFiles(place[1], commits.heads)
    for number, content in enumerate(contents):
        bucket = files.bucket(("s", number))
        bucket.write_entry(1, content)
        bucket.write_head(b"[%d]" % len(content))
    files.sync()
    files.close()
    return files.changed()


def test_a_new_directory_begins_with_the_first_block_and_no_states(place):
    commits = Commits(*place)
    assert (commits.block, commits.heads) == (0, {})


def test_the_next_run_finds_what_was_committed(place):
    commits = Commits(*place)
    commits.commit(7, written(place, commits, b"one", b"three"), {Lane("p"): 3})
    again = Commits(*place)
    assert again.block == 7
    files = StateFiles(place[1], again.heads)
    assert files.bucket(("s", 1)).read_entry(1, 5) == b"three"
    assert files.bucket(("s", 0)).read_head() == b"[3]"
    assert files.bucket(("s", 2)).read_head() is None
    files.close()


def test_each_lane_of_a_source_has_an_end(place):
    commits = Commits(*place)
    commits.commit(7, {}, {Lane("p"): 3, Lane("q", 2): 8, Lane("q", 0): 5})
    commits.commit(9, {}, {Lane("q", 2): 11})
    assert Commits(*place).ends == {Lane("p"): 3, Lane("q", 2): 11, Lane("q", 0): 5}


def test_the_ends_of_a_commit_of_the_last_format_are_those_of_the_first_lanes(place):
    Commits(*place).commit(7, {}, {Lane("p"): 3, Lane("q"): 5})
    commit = json.loads(place[0].read_text())
    assert commit["ends"] == [["p", 0, 3], ["q", 0, 5]]
    place[0].write_text(json.dumps(commit | {"ends": {"p": 3, "q": 5}}))
    assert Commits(*place).ends == {Lane("p"): 3, Lane("q"): 5}


def test_what_was_written_and_not_committed_is_ignored(place):
    commits = Commits(*place)
    commits.commit(7, written(place, commits, b"one"), {Lane("p"): 3})
    written(place, commits, b"never")
    assert len(list(place[1].iterdir())) == 2
    again = Commits(*place)
    assert again.heads == commits.heads
    assert len(list(place[1].iterdir())) == 1


def test_files_stay_for_one_more_commit_than_they_are_named(place):
    commits = Commits(*place)
    commits.commit(1, written(place, commits, b"one"), {Lane("p"): 3})
    [first] = place[1].iterdir()
    commits.commit(2, written(place, commits, b"two"), {Lane("p"): 3})
    assert first.exists()
    commits.commit(3, written(place, commits, b"three"), {Lane("p"): 3})
    assert not first.exists()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"block": 3}', '{"block": "x", "states": {}}', '{"block": 1, "states": {"s": 1}}']
)
def test_a_damaged_commit_is_reported_and_nothing_is_removed(place, text):
    commits = Commits(*place)
    commits.commit(1, written(place, commits, b"one"), {Lane("p"): 3})
    place[0].write_text(text)
    with pytest.raises(DirectoryError, match="is damaged, and the state cannot be found without it"):
        Commits(*place)
    assert len(list(place[1].iterdir())) == 1


def test_a_file_that_became_shorter_is_reported(place):
    commits = Commits(*place)
    commits.commit(1, written(place, commits, b"content"), {Lane("p"): 3})
    [file] = place[1].iterdir()
    file.write_bytes(b"con")
    files = StateFiles(place[1], commits.heads)
    with pytest.raises(OSError, match="shorter than it was"):
        files.bucket(("s", 0)).read_entry(1, 7)
    files.close()


def test_the_commit_is_plain_json(place):
    commits = Commits(*place)
    commits.commit(4, written(place, commits, b"one"), {Lane("p"): 3})
    assert json.loads(place[0].read_text())["block"] == 4


def test_what_an_attempt_has_left_is_removed_before_the_next(place):
    commits = Commits(*place)
    commits.commit(1, written(place, commits, b"one"), {Lane("p"): 3})
    written(place, commits, b"never")
    commits.remove_unnamed()
    assert len(list(place[1].iterdir())) == 1
    assert commits.state_bytes() == len(b"one")


def test_what_each_state_is_made_of_is_known(place):
    commits = Commits(*place)
    files = StateFiles(place[1], {})
    log = StateLog(Serializer(), "run")
    for name, keys in {("words", 3): "a", ("words", 5): "bc", ("total", 0): "d"}.items():
        bucket = Bucket(objects=dict.fromkeys(keys, name))
        log.save(bucket, files.bucket(name), set(keys), set(keys))
    files.close()
    assert commits.state_sizes() == {}
    commits.commit(1, files.changed(), {})
    sizes = commits.state_sizes()
    assert {state: size[:2] for state, size in sizes.items()} == {"words": (2, 2), "total": (1, 1)}
    assert sum(size.bytes for size in sizes.values()) == commits.state_bytes() == files.written
