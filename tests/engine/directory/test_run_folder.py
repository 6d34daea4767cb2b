"""The folder of a run: private, gone with the run, and removed by the next one if the run was killed."""

import errno
import os
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.processes import run_python

from wallaroo.engine.directory.quote_free_paths import is_safe_path
from wallaroo.engine.directory.run_folder import found_users_folder, run_folder, temporary_folder, users_folder
from wallaroo.errors import DirectoryError

HOLD = """
import sys
from wallaroo.engine.directory.run_folder import run_folder
with run_folder() as folder:
    (folder / "socket").touch()
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Return a temporary folder of the test's own, with a path as short as usual ones have."""
    with tempfile.TemporaryDirectory(prefix="w-", dir="/tmp") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder)


def mode(path):
    return stat.S_IMODE(path.lstat().st_mode)


def test_it_is_private_and_removed_with_the_run(temporary):
    with run_folder() as folder:
        assert folder.parents[2] == temporary
        assert [mode(path) for path in (folder, *folder.parents[:2])] == [0o700] * 3
    assert [path.name for path in temporary.rglob("*")] == [f"wallaroo-{os.getuid()}", ".run"]


def test_what_a_killed_run_left_is_removed_and_what_is_in_use_is_not(temporary):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        left = Path(run.stdout.readline().strip())
        with run_folder() as first, run_folder() as second:
            assert {path.name for path in left.parent.iterdir()} == {left.name, first.name, second.name}
            assert (left / "socket").exists()
            run.kill()
            run.wait()
            assert (left / "socket").exists()
            with run_folder() as third:
                assert {path.name for path in left.parent.iterdir()} == {first.name, second.name, third.name}


def test_links_are_neither_followed_nor_removed(temporary, tmp_path):
    with run_folder() as folder:
        runs = folder.parent
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    (runs / "link").symlink_to(precious)
    left = runs / "left"
    left.mkdir()
    (left / "link").symlink_to(precious)
    with run_folder():
        assert not left.exists()
    assert (precious / "file").exists()
    assert (runs / "link").is_symlink()


def link(path, tmp_path):
    path.symlink_to(tmp_path)


def file(path, tmp_path):
    path.touch()


def folder_of_another_user(path, tmp_path):
    path.mkdir()
    os.chown(path, 12345, -1)


@pytest.mark.parametrize("obstacle", [link, file, *([folder_of_another_user] if os.getuid() == 0 else [])])
def test_another_name_is_used_if_the_users_folder_is_blocked(temporary, tmp_path, obstacle):
    usual, second, third = (temporary / f"wallaroo-{os.getuid()}{end}" for end in ("", "-2", "-3"))
    obstacle(usual, tmp_path)
    obstacle(second, tmp_path)
    assert found_users_folder(str(temporary)) == third
    assert not third.exists()
    assert users_folder(str(temporary)) == third
    assert mode(third) == 0o700
    with run_folder() as folder:
        assert folder.parents[1] == third
    assert list(tmp_path.iterdir()) == []
    # Other names became free: what the user has stays where it is.
    usual.rename(temporary / "gone")
    assert users_folder(str(temporary)) == found_users_folder(str(temporary)) == third
    assert not usual.exists()


def test_an_obstacle_in_the_users_own_folder_is_reported(temporary):
    (users_folder(str(temporary)) / ".run").touch()
    with pytest.raises(DirectoryError, match=r"\.run belongs to another user, or is not a directory"), run_folder():
        pass


def test_a_folder_that_others_may_look_into_is_closed(temporary):
    folder = temporary / f"wallaroo-{os.getuid()}"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    assert mode(users_folder(str(temporary))) == 0o700


NOT_THIS_USERS = """
import os, sys
from wallaroo.engine.directory.run_folder import users_folder
from wallaroo.errors import DirectoryError
os.getuid = lambda: 12345
try:
    users_folder(sys.argv[1])
except DirectoryError as error:
    print(error)
"""


def test_numbering_stops_if_new_files_belong_to_another_user(temporary):
    # In a process of its own, with a timeout: it must not loop forever.
    told = run_python("-c", NOT_THIS_USERS, temporary).stdout
    assert told == (
        f"The directory {temporary}/wallaroo-12345 cannot be used: the disk that it is on assigns what this "
        "user creates to another user. Set TMPDIR to a folder on another disk.\n"
    )
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("found", [0o777, 0o755])
def test_on_a_disk_without_modes_there_is_no_private_folder(temporary, monkeypatch, found):
    folder = temporary / f"wallaroo-{os.getuid()}"
    folder.mkdir()
    folder.chmod(found)
    monkeypatch.setattr(os, "chmod", lambda *_, **__: None)
    with pytest.raises(DirectoryError, match="others can access it, and the disk that it is on stores no permissions"):
        users_folder(str(temporary))


def test_the_users_folder_is_found_after_any_number_of_names_that_others_hold(temporary):
    usual = temporary / f"wallaroo-{os.getuid()}"
    for number in range(2, 150):
        usual.with_name(f"{usual.name}-{number}").touch()
    usual.touch()
    ours = users_folder(str(temporary))
    assert ours.name == f"{usual.name}-150"
    # Many of the names that were held are free again.
    for number in range(2, 140):
        usual.with_name(f"{usual.name}-{number}").unlink()
    usual.with_name(f"{usual.name}-x").mkdir()
    assert users_folder(str(temporary)) == found_users_folder(str(temporary)) == ours


@pytest.mark.parametrize(
    ("name", "why"), [("x" * 60, "its path is too long for the sockets in it"), ("CAPITALS", "its path has capitals")]
)
def test_the_reason_for_skipping_the_temporary_folder_is_given_if_the_other_one_cannot_be_used(
    temporary, monkeypatch, name, why
):
    def no_room(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    chosen = temporary / name
    monkeypatch.setattr(tempfile, "tempdir", str(chosen))
    monkeypatch.setattr(os, "mkdir", no_room)
    monkeypatch.setattr(os, "getuid", lambda: 4294967293)  # A user who has no folder yet.
    told = rf"No space left.* The temporary folder {chosen} is not used: {why}"
    with pytest.raises(DirectoryError, match=told), run_folder():
        pass


SOCKET = ".01234567-89ab-cdef-0123-456789abcdef.sock"
"""The longest name of a socket: Spark's, and that of its workers."""


@pytest.mark.parametrize("name", ["a folder", "x" * 60, "CAPITALS", "a,b", "%20", "grüße", "${env:HOME}", "a:b"])
def test_sockets_have_short_paths_wherever_temporary_files_go(monkeypatch, temporary, name):
    chosen = temporary / name
    chosen.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(chosen))
    with run_folder() as folder:
        assert len(str(folder / SOCKET)) <= 103
        assert is_safe_path(folder)
        # PySpark's workers look for the socket of a state in lower case.
        assert str(folder) == str(folder).lower()
    assert not any(chosen.iterdir())


def test_sockets_can_be_made_in_temporary_folders_of_every_length(temporary, monkeypatch):
    """The folder is the one that was chosen as long as sockets fit into it, and always one into which they do."""
    taken = {}
    for length in range(len(str(temporary)) + 2, 120):
        chosen = temporary / ("x" * (length - len(str(temporary)) - 1))
        chosen.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(chosen))
        with run_folder() as folder, socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
            server.bind(str(folder / SOCKET))
            server.listen()
            client.connect(str(folder / SOCKET).lower())
            taken[length] = folder.is_relative_to(chosen)
            assert taken[length] == (len(f"{chosen}/wallaroo-{os.getuid()}/.run/12345678/{SOCKET}") <= 103)
    assert set(taken.values()) == {True, False}


@pytest.mark.parametrize("user", [0, 1000, 4294967294])
def test_users_with_long_numbers_have_less_room(monkeypatch, user):
    monkeypatch.setattr(os, "getuid", lambda: user)
    longest = 0
    for length in range(5, 120):
        chosen = "/" + "x" * (length - 1)
        monkeypatch.setattr(tempfile, "tempdir", chosen)
        if temporary_folder() == chosen:
            longest = length
    assert len(f"{'x' * longest}/wallaroo-{user}/.run/12345678/{SOCKET}") == 103
