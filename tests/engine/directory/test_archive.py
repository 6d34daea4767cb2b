"""Starting fresh: everything is archived, nothing is lost, even if a crash happens in between."""

import os

import pytest
from tests.processes import run_python

from wallaroo.engine.directory import archive as module
from wallaroo.engine.directory.archive import archive_contents, finish_archiving
from wallaroo.engine.directory.home import COMMIT, Home
from wallaroo.engine.directory.trust import MARKER

CONTENTS = {
    "checkpoint/offsets/0": "v1",
    "dead-letters.jsonl": "{}",
    "layout.json": "{}",
    "ledger": "7\tsink",
    "log/words-1234/00000000000000000000.data": "words",
}


def fill(folder, contents=CONTENTS):
    for name, text in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def files_in(folder):
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_everything_but_the_lock_is_moved_and_can_be_moved_back(tmp_path):
    home = Home(tmp_path / "home")
    home.open()
    fill(home.path)
    folder = home.archive()
    assert folder.parent == home.path
    assert folder.name.startswith("before-")
    assert files_in(folder) == CONTENTS
    assert sorted(path.name for path in home.path.iterdir()) == sorted([folder.name, "lock", "logs", MARKER])
    assert not any((home.path / "logs").iterdir())
    assert (home.path / "lock").read_text().split()[0] == str(os.getpid())
    assert oct(folder.stat().st_mode & 0o777) == "0o700"
    home.close()


def test_what_was_archived_before_stays_where_it_is(tmp_path):
    folders = []
    for number in range(3):
        fill(tmp_path, {"layout.json": str(number)})
        folders.append(archive_contents(tmp_path))
    assert len(set(folders)) == 3
    assert [files_in(folder) for folder in folders] == [{"layout.json": str(number)} for number in range(3)]
    assert sorted(tmp_path.iterdir()) == sorted(folders)


def test_what_is_not_the_applications_stays_where_it_is(tmp_path):
    strangers = {"my_app.py": "import wallaroo", ".git/HEAD": "main", "ledger.txt": "mine"}
    fill(tmp_path, CONTENTS | strangers)
    assert files_in(archive_contents(tmp_path)) == CONTENTS
    assert {name: (tmp_path / name).read_text() for name in strangers} == strangers
    assert archive_contents(tmp_path) is None


def test_everything_that_a_run_leaves_is_known(tmp_path):
    """The names of `Home` and those that others put next to them."""
    home = Home(tmp_path)
    paths = [
        home.logs,
        home.sequence,
        home.states,
        home.path / COMMIT,
        home.ledger,
        home.dead_letters,
        home.replays,
        home.spark_log.parent,
    ]
    assert {path.name for path in paths} <= set(module.OWN)


def test_an_empty_directory_is_left_as_it_is(tmp_path):
    home = Home(tmp_path / "home")
    home.open()
    before = sorted(home.path.rglob("*"))
    assert home.archive() is None
    assert sorted(home.path.rglob("*")) == before
    home.close()


CRASH = """
import os, sys
from pathlib import Path
from wallaroo.engine.directory.archive import archive_contents

moves = int(sys.argv[2])
rename, sync = Path.rename, os.fsync
def dying(*args):
    global moves
    if moves == 0:
        os._exit(9)
    moves -= 1
    return rename(*args)
Path.rename = dying
archive_contents(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("moves", range(len(CONTENTS) + 1))
def test_after_a_crash_in_between_the_next_process_moves_the_rest(tmp_path, moves):
    home = Home(tmp_path)
    home.open()
    home.close()
    fill(tmp_path)
    run_python("-c", CRASH, tmp_path, moves, code=9)
    # Without a further request for a fresh start.
    home.open()
    home.close()
    [folder] = tmp_path.glob("*before-*")
    assert folder.name.startswith("before-")
    assert files_in(folder) == CONTENTS
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([folder.name, "lock", "logs", MARKER])
    assert home.recorded_layout() is None


def test_files_written_after_the_crash_replace_nothing(tmp_path):
    (tmp_path / f"{module._UNDER_WAY}now").mkdir()
    fill(tmp_path / f"{module._UNDER_WAY}now", {"ledger": "old", "logs/a": "old"})
    fill(tmp_path, {"ledger": "new", "logs/a": "new"})
    folder = finish_archiving(tmp_path)
    assert files_in(folder) == {"ledger": "old", "ledger-2": "new", "logs/a": "old", "logs-2/a": "new"}
