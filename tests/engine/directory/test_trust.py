"""Whether a directory is an application's."""

import errno
import json
import os
import pwd
import re
import stat
from pathlib import Path

import pytest
from tests.processes import run_python, run_to_end

from wallaroo.engine.directory.home import Home
from wallaroo.engine.directory.trust import MARKER, _traces, claim, is_applications, refuse_untrusted
from wallaroo.engine.plan import Layout
from wallaroo.errors import DirectoryError

LAYOUT = Layout((("counts",),), frozenset(), buckets=8)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def ours(tmp_path):
    """Return an application's directory, with something in it."""
    home = Home(tmp_path / "home")
    home.open()
    home.record_layout("app", LAYOUT)
    for name in ("checkpoint/state/0/1/7.changelog", "log/words-1234/0.data", "plan.json", "scratch/spark/block"):
        (home.path / name).parent.mkdir(parents=True, exist_ok=True)
        (home.path / name).write_text("")
    home.close()
    return home.path


@pytest.mark.parametrize("found", [None, 0o700, 0o755, 0o777, 0o2775])
def test_a_new_or_empty_directory_becomes_an_applications_and_is_closed_to_others(tmp_path, found):
    directory = tmp_path / "deep" / "home"
    if found is not None:
        directory.mkdir(parents=True)
        directory.chmod(found)
    claim(directory)
    assert mode(directory) == 0o700
    assert is_applications(directory)
    assert "Keep nothing of your own" in (directory / MARKER).read_text()
    assert mode(directory / MARKER) == 0o600
    claim(directory)
    assert [path.name for path in directory.iterdir()] == [MARKER]


@pytest.mark.parametrize("name", ["ledger", "scratch/file", "logs/app.log", "lock", ".git/HEAD", "layout.json"])
def test_a_directory_with_something_else_in_it_is_refused_and_left_as_it_is(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text('{"format": 2}')
    tmp_path.chmod(0o777)
    with pytest.raises(DirectoryError, match=r"is not empty, and not an application's: it has '.*Choose an empty or"):
        Home(tmp_path).open()
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()] == [name]
    assert mode(tmp_path) == 0o777


def test_the_directory_of_an_earlier_version_is_known_by_its_layout(tmp_path):
    Home(tmp_path).record_layout("app", LAYOUT)
    (tmp_path / "ledger").write_text("")
    claim(tmp_path)
    assert (tmp_path / MARKER).exists()


def test_a_mark_that_is_not_a_file_does_not_count(tmp_path):
    (tmp_path / MARKER).mkdir()
    os.mkfifo(tmp_path / "layout.json")
    with pytest.raises(DirectoryError, match="is not empty"):
        claim(tmp_path)


KILLED = """
import os, sys
from pathlib import Path
from wallaroo.engine.directory import trust

def die(*_):
    os._exit(9)
setattr(*eval(sys.argv[2]), die)
trust.claim(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("where", ["trust, '_names'", "os, 'open'", "os, 'write'", "os, 'fsync'"])
def test_a_start_that_was_killed_leaves_a_usable_directory(tmp_path, where):
    run_python("-c", KILLED, tmp_path / "home", where, code=9)
    assert (tmp_path / "home").is_dir()
    claim(tmp_path / "home")
    assert is_applications(tmp_path / "home")


def test_a_full_disk_is_reported_and_the_next_start_continues(tmp_path, monkeypatch):
    def no_room(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", no_room)
        with pytest.raises(DirectoryError, match="No space left on device"):
            Home(tmp_path / "home").open()
    claim(tmp_path / "home")


def test_a_root_a_home_a_mount_point_and_a_shared_folder_are_refused(tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to("/")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    (tmp_path / "alice").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "alice"))
    homes = {user.pw_dir for user in pwd.getpwall()} - {"/"}
    places = [
        ("/", "it is the root of the file system"),
        (tmp_path / "link", "it is the root of the file system"),
        *((home, "it is a home folder") for home in (tmp_path / "alice", *homes)),
        ("/dev", "a disk, volume or folder is mounted there|it is a home folder"),
        (tmp_path / "shared", "it is a folder that users share"),
    ]
    for place, why in places:
        before = Path(place).stat().st_mode if Path(place).exists() else None
        with pytest.raises(
            DirectoryError, match=rf"{re.escape(str(place))} cannot be .*: ({why}).*inside it, such as .*/wallaroo"
        ):
            Home(Path(place)).open()
        assert (Path(place).stat().st_mode if Path(place).exists() else None) == before
    assert list((tmp_path / "alice").iterdir()) == list((tmp_path / "shared").iterdir()) == []


@pytest.mark.parametrize("name", [".", "checkpoint", "checkpoint/state/0/1/7.changelog", "log/words-1234", "scratch"])
def test_what_others_can_write_to_is_not_trusted(ours, name):
    (ours / name).chmod(0o777)
    for use in (claim, refuse_untrusted, lambda path: Home(path).look()):
        with pytest.raises(DirectoryError, match=rf"others can write to {ours / name}\. .*Move it away.*chmod -R go-w"):
            use(ours)
    assert mode(ours / name) == 0o777
    (ours / name).chmod(0o755)
    claim(ours)


@pytest.mark.parametrize("name", ["checkpoint", "log/words-1234", "logs/log4j2.properties", "before-2026", MARKER])
def test_links_inside_are_not_followed(ours, tmp_path, name):
    target = tmp_path / "target"
    if (ours / name).exists():
        (ours / name).rename(target)
    (ours / name).symlink_to(target)
    with pytest.raises(DirectoryError, match=rf"{ours / name} is a link|is not empty, and not an application's"):
        claim(ours / ".")


@pytest.mark.parametrize("name", ["checkpoint/state/0/1/7.changelog", "plan.json", "logs/spark.log"])
def test_a_hard_link_inside_is_one_too(ours, tmp_path, name):
    (tmp_path / "precious").write_text("")
    (ours / name).unlink(missing_ok=True)
    (ours / name).hardlink_to(tmp_path / "precious")
    (ours / "notes").hardlink_to(tmp_path / "precious")
    for use in (claim, refuse_untrusted):
        with pytest.raises(DirectoryError, match=rf"{ours / name} is a hard link.*replace links by copies"):
            use(ours)
    (tmp_path / "precious").unlink()
    (ours / "notes").unlink()
    claim(ours)


def test_a_link_that_is_not_the_applications_is_ignored(ours, tmp_path):
    (ours / "notes").symlink_to(tmp_path)
    (ours / "scratch" / "link").symlink_to(tmp_path)
    claim(ours)


@pytest.mark.parametrize("name", ["checkpoint/state/0/1/7.changelog", "plan.json", "notes"])
def test_what_belongs_to_others_shows_that_they_could_write_here(ours, given_away, name):
    (ours / name).touch()
    user = given_away(ours / name)
    assert f"{ours / name} belongs to another user" in list(_traces(ours, user))
    with pytest.raises(DirectoryError, match="belongs to another user"):
        refuse_untrusted(ours, user)


def test_a_directory_of_another_users_is_refused(ours, given_away):
    user = given_away(ours)
    owner = ours.stat().st_uid
    names = {each.pw_uid: each.pw_name for each in reversed(pwd.getpwall())}
    name = names.get(owner, f"user {owner}")
    with pytest.raises(DirectoryError, match=rf"{ours} belongs to another user\. Run this as its owner \({name}\)\."):
        refuse_untrusted(ours, user)


def test_the_error_for_a_directory_of_another_user_says_to_choose_another_one(ours, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: ours.stat().st_uid + 1)
    with pytest.raises(DirectoryError, match=rf"{ours} belongs to another user\. Choose another one"):
        claim(ours)


def test_a_lock_that_is_a_link_makes_no_file_elsewhere(ours, tmp_path):
    (ours / "lock").unlink()
    (ours / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DirectoryError, match="lock is a link"):
        Home(ours).open()
    assert not (tmp_path / "elsewhere").exists()


def test_the_layout_identifies_an_application_by_what_it_records(ours):
    (ours / MARKER).unlink()
    recorded = json.loads((ours / "layout.json").read_text())
    for name in recorded.keys() - {"unused"}:
        (ours / "layout.json").write_text(json.dumps({key: recorded[key] for key in recorded if key != name}))
        assert not is_applications(ours)


def refuse(*_, **__):
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


@pytest.mark.parametrize("chmod", [lambda *_, **__: None, refuse])
@pytest.mark.parametrize(("found", "usable"), [(0o777, False), (0o755, True)])
def test_on_a_disk_without_modes_a_directory_that_others_can_write_to_is_refused_at_once(
    tmp_path, monkeypatch, chmod, found, usable
):
    directory = tmp_path / "home"
    directory.mkdir()
    directory.chmod(found)
    monkeypatch.setattr(os, "chmod", chmod)
    if usable:
        claim(directory)
        claim(directory)
    else:
        with pytest.raises(
            DirectoryError, match=r"others can write to it, and the disk .* stores no permissions.*on another"
        ):
            claim(directory)
        assert list(directory.iterdir()) == []


def test_the_commands_in_a_refusal_move_an_application_out_of_a_refused_place(ours, monkeypatch):
    (ours / "wallaroo").mkdir()
    (ours / "before-2026-11-15T10-22-03").mkdir()
    (ours / "notes").write_text("")
    monkeypatch.setenv("HOME", str(ours))
    with pytest.raises(DirectoryError, match=r"it is a home folder.*An application has used it before") as refused:
        claim(ours)
    commands, then = re.fullmatch(
        r".*`(.*)`\. Then start it with --resilience-dir (\S+)\.", str(refused.value)
    ).groups()
    run_to_end("sh", "-c", commands)
    assert sorted(path.name for path in ours.iterdir()) == ["notes", "wallaroo", "wallaroo-2"]
    assert then == str(ours / "wallaroo-2")
    assert mode(Path(then)) == 0o700
    home = Home(Path(then))
    home.open()
    home.close()
    assert home.recorded_layout() == ("app", LAYOUT)
    assert (home.path / "before-2026-11-15T10-22-03").is_dir()


def test_what_an_earlier_version_has_left_that_was_killed_early_can_be_marked_by_hand(tmp_path):
    home = tmp_path / "home"
    (home / "logs").mkdir(parents=True)
    (home / "lock").touch()
    with pytest.raises(DirectoryError, match="If only Wallaroo has put that there, run `touch ") as refused:
        claim(home)
    (home / "notes").touch()
    with pytest.raises(DirectoryError, match=r"such as .*/wallaroo\.$"):
        claim(home)
    (home / "notes").unlink()
    run_to_end("sh", "-c", re.search("`(.*)`", str(refused.value))[1])
    claim(home)
