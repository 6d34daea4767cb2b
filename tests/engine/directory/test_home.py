"""The directory of an application."""

import fcntl
import json
import os
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import psutil
import pytest
from tests.processes import run_to_end

from wallaroo.engine.directory.home import Home, default_home, remark_on
from wallaroo.engine.directory.run_folder import users_folder
from wallaroo.engine.plan import Layout
from wallaroo.errors import DirectoryError
from wallaroo.files import write_atomically
from wallaroo.path_trust import untrusted_reason

HOLD = """
import subprocess, sys
from pathlib import Path
from wallaroo.engine.directory.home import Home
home = Home(Path(sys.argv[1]))
home.open()
{then}
"""
UNTIL_TOLD = "print('open', flush=True)\nsys.stdin.read()"
# Like the JVM: it has the lock too, and outlives its driver for a moment.
WITH_A_CHILD = """
child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], pass_fds=[home.lock])
print("open", flush=True)
child.wait()
"""

OPEN = """
import sys
from pathlib import Path
from wallaroo.engine.directory.home import Home
print("trying", flush=True)
Home(Path(sys.argv[1])).open()
print("open")
"""


@pytest.fixture
def holder(tmp_path):
    """Return a function that starts a process which holds the directory."""
    started = []

    def start(then=UNTIL_TOLD):
        command = [sys.executable, "-c", HOLD.format(then=then), tmp_path / "home"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout.readline() == "open\n"
        return process

    yield start
    for process in started:
        process.kill()
        with process:
            pass


def test_the_directory_is_made_for_its_owner_only(tmp_path):
    home = Home(tmp_path / "deep" / "home")
    home.open()
    home.close()
    assert stat.S_IMODE(home.path.stat().st_mode) == 0o700
    assert home.spark_log.parent.is_dir()


def test_a_process_that_reuses_the_id_of_a_dead_run_is_not_mistaken_for_it(tmp_path, holder):
    """The JVM of the dead run still has the lock, for a moment; its number is that of another process by now."""
    jvm = holder()
    (tmp_path / "home" / "lock").write_text(f"{os.getpid()} 1\n")
    threading.Timer(0.5, jvm.kill).start()
    home = Home(tmp_path / "home")
    home.open()
    home.close()


def test_a_second_run_is_refused_while_the_first_one_lasts(tmp_path, holder):
    first = holder()
    second = Home(tmp_path / "home")
    with pytest.raises(DirectoryError) as caught:
        second.open()
    assert f"Another run (process {first.pid}) is using {tmp_path / 'home'}" in str(caught.value)
    assert "--resilience-dir" in str(caught.value)
    first.communicate()
    second.open()
    second.close()


def test_a_killed_run_leaves_the_directory_free(tmp_path, holder):
    first = holder()
    first.kill()
    first.wait()
    home = Home(tmp_path / "home")
    home.open()
    assert (home.path / "lock").read_text().split()[0] == str(os.getpid())
    home.close()


def test_what_a_killed_run_leaves_running_is_waited_for(tmp_path, holder):
    first = holder(WITH_A_CHILD)
    first.kill()
    first.wait()
    with (tmp_path / "home" / "lock").open() as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    command = [sys.executable, "-c", OPEN, tmp_path / "home"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as opener:
        assert opener.stdout.readline() == "trying\n"
        # The child holds the lock until its input ends, which is only now.
        first.stdin.close()
        assert opener.communicate(timeout=60)[0] == "open\n"


def test_what_a_killed_run_leaves_running_forever_is_named(tmp_path, holder, monkeypatch):
    monkeypatch.setattr("wallaroo.engine.directory.home._TIMEOUT_SECONDS", 0.2)
    first = holder(WITH_A_CHILD)
    (child,) = psutil.Process(first.pid).children()
    first.kill()
    first.wait()
    with pytest.raises(DirectoryError) as caught:
        Home(tmp_path / "home").open()
    assert str(caught.value) == (
        f"A run that has ended (process {first.pid}) has left something running that still uses {tmp_path / 'home'}: "
        f"process {child.pid}. End that first, or choose another directory with --resilience-dir."
    )


def test_closing_twice_does_no_harm(tmp_path):
    home = Home(tmp_path)
    home.open()
    home.close()
    home.close()
    home.open()
    home.close()


def test_a_path_that_is_no_directory_is_refused_clearly(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DirectoryError, match=r"file/home cannot be used: Not a directory\. Choose another"):
        Home(tmp_path / "file" / "home").open()


def test_the_path_is_absolute_and_as_the_user_gave_it(tmp_path, monkeypatch):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    assert Home(Path("link")).path == tmp_path / "link"


@pytest.mark.parametrize(
    ("one", "other"), [("a b", "a-b"), ("é", "è"), ("x" * 50 + "1", "x" * 50 + "2"), ("A", "a"), ("../up", "up")]
)
def test_each_source_has_a_log_of_its_own(one, other):
    home = Home(Path("/somewhere"))
    assert home.log_of(one) != home.log_of(other)
    assert {home.log_of(one).parent, home.log_of(other).parent} == {home.path / "log"}
    assert home.log_of(one) == Home(Path("/somewhere")).log_of(one)


@pytest.mark.parametrize(
    ("name", "folder"),
    [("Word Count!", "word-count"), ("../../etc", "etc"), ("..", "application"), ("é", "application"), ("a/b", "a-b")],
)
def test_an_application_has_a_default_home_of_its_user(place, name, folder):
    assert default_home(name) == place.states / folder


class Place:
    """A home folder and a temporary folder of the test's own."""

    def __init__(self, folder):
        self.home, self.temporary = folder / "home", folder / "temporary"
        for each in (self.home, self.temporary):
            each.mkdir(mode=0o700)
        self.states = self.home / ".local" / "state" / "wallaroo"

    def earlier(self, name):
        """Leave behind what an earlier version would."""
        home = Home(users_folder(str(self.temporary)) / name)
        home.open()
        home.close()
        return home.path


@pytest.fixture
def place(tmp_path, monkeypatch):
    made = Place(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(made.temporary))
    monkeypatch.setattr(sys, "platform", "linux")
    return made


def test_on_macos_state_is_in_application_support(place, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert default_home("a") == place.home / "Library" / "Application Support" / "wallaroo" / "a"


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_the_folder_for_state_can_be_chosen(place, monkeypatch, tmp_path, platform):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "chosen"))
    assert default_home("a") == tmp_path / "chosen" / "wallaroo" / "a"
    assert not list(place.home.iterdir())


def test_a_relative_folder_for_state_is_ignored(place, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "somewhere")
    assert default_home("a") == place.states / "a"


def test_all_folders_on_the_way_are_made_for_their_owner_only(place):
    before = os.umask(0o002)
    try:
        home = Home(default_home("a"))
        home.open()
        home.close()
    finally:
        os.umask(before)
    made = [home.path, *home.path.parents]
    for folder in made[: made.index(place.home)]:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder
    assert untrusted_reason(home.path) is None


def test_a_folder_for_state_that_others_can_write_to_is_detected(place):
    place.states.mkdir(parents=True)
    place.states.chmod(0o777)
    assert untrusted_reason(default_home("a").parent) == f"others can write to {place.states}"


def test_where_the_folder_for_state_cannot_be_made_the_error_says_what_to_do(place):
    (place.home / ".local").write_text("")
    told = rf"{place.states} cannot be used: Not a directory\. Choose another one with --resilience-dir\."
    with pytest.raises(DirectoryError, match=told):
        default_home("a")


def test_without_a_home_folder_there_is_no_default(place, monkeypatch):
    # The user of a container often is not in its list of users.
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000)
    for looking in (True, False):
        with pytest.raises(DirectoryError, match=r"no home folder.*Choose a directory with --resilience-dir\."):
            default_home("a", looking=looking)


def test_state_of_an_earlier_version_in_the_temporary_folder_is_resumed(place):
    earlier = place.earlier("word-count")
    for looking in (True, False):
        assert default_home("Word Count", looking=looking) == earlier
        assert default_home("Another", looking=looking) == place.states / "another"
    place.states.joinpath("word-count").mkdir(parents=True)
    assert default_home("Word Count") == place.states / "word-count"


def test_it_is_reported_with_a_command_that_moves_it(place):
    earlier = place.earlier("word-count")
    remark = remark_on(earlier)
    assert remark.startswith(" (in the temporary folder, as in earlier versions, which the system may empty.")
    run_to_end("sh", "-c", remark.split("`")[1])
    moved = default_home("Word Count")
    assert moved == place.states / "word-count"
    assert remark_on(moved) == ""
    assert not earlier.exists()
    home = Home(moved)
    home.open()
    home.close()


@pytest.mark.parametrize("planted", ["link", "folder", "file"])
def test_what_is_not_an_applications_in_the_temporary_folder_is_left_alone(place, planted):
    home = users_folder(str(place.temporary)) / "a"
    if planted == "link":
        home.symlink_to(place.earlier("b"))
    elif planted == "folder":
        home.mkdir()
    else:
        home.write_text("")
    assert default_home("a") == place.states / "a"


def test_looking_for_the_default_home_creates_nothing(place):
    looked_for = default_home("Word Count", looking=True)
    assert [*place.home.iterdir(), *place.temporary.iterdir()] == []
    with pytest.raises(DirectoryError, match=f"There is no directory {looked_for}"):
        Home(looked_for).look()
    assert default_home("Word Count") == looked_for
    assert place.states.is_dir()
    assert list(place.states.iterdir()) == []


LAYOUT = Layout((("a", "single"), ("b",)), frozenset({"single"}), buckets=8, unused=frozenset({"b"}))


def test_the_layout_is_read_as_it_was_recorded(tmp_path):
    home = Home(tmp_path)
    assert home.recorded_layout() is None
    home.record_layout("app", LAYOUT)
    assert home.recorded_layout() == ("app", LAYOUT)
    assert home.recorded_layout()[1].states == LAYOUT.states


def test_files_of_another_version_are_refused(tmp_path):
    home = Home(tmp_path)
    home.record_layout("app", LAYOUT)
    recorded = json.loads((tmp_path / "layout.json").read_text())
    for other in (recorded | {"format": 2}, {name: recorded[name] for name in recorded if name != "format"}):
        (tmp_path / "layout.json").write_text(json.dumps(other))
        with pytest.raises(DirectoryError, match=r"another version of Wallaroo.*--reset"):
            home.recorded_layout()


def test_a_directory_of_the_last_format_is_read_and_becomes_one_of_the_present_format(tmp_path):
    home = Home(tmp_path)
    home.record_layout("app", LAYOUT)
    present = json.loads((tmp_path / "layout.json").read_text())
    (tmp_path / "layout.json").write_text(json.dumps(present | {"format": 3}))
    assert home.recorded_layout() == ("app", LAYOUT)
    home.record_layout("app", LAYOUT)
    assert json.loads((tmp_path / "layout.json").read_text()) == present
    assert present["format"] > 3


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", '{"format": 3, "application": "app"}', '{"format": 3, "levels": 7, "singles": 7}']
)
def test_a_damaged_layout_is_reported_clearly(tmp_path, text):
    (tmp_path / "layout.json").write_text(text)
    with pytest.raises(DirectoryError, match=r"layout\.json is damaged.*--reset"):
        Home(tmp_path).recorded_layout()


def test_writing_atomically_replaces_the_file_and_leaves_nothing_else(tmp_path):
    for text in ("one", "another", ""):
        write_atomically(tmp_path / "file", text)
        assert (tmp_path / "file").read_text() == text
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
