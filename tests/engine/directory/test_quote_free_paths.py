"""Folders with any name: Spark gets a plain path for each, or the name is refused."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from wallaroo.engine.directory.home import Home
from wallaroo.engine.directory.quote_free_paths import is_safe_path, require_safe_path, safe_path
from wallaroo.engine.spark.session import SparkOptions, _all_settings
from wallaroo.errors import DirectoryError

NAMES = [
    "my state",
    " ends with spaces  ",
    "a,b",
    "a%20b%2Fc%",
    "a#b?c",
    "${env:HOME}${sys:user.home}$HOME$(id)`id`",
    'it\'s "quoted"',
    "{a,b}*[c]",
    "a:b;c|d&e",
    "back\\slash\\u0041",
    "-r",
    "--",
    "~",
    "CAPITALS",
    "grüße",
    "🦘",
    "\u202eright to left",
    "x" * 255,
]


def odd_names():
    characters = st.characters(exclude_characters="/\0", exclude_categories=["Cs"])
    names = st.text(characters, min_size=1, max_size=80)
    return names.filter(lambda name: name not in {".", ".."} and len(name.encode(errors="surrogateescape")) <= 255)


def bytes_that_are_no_text():
    names = st.binary(min_size=1, max_size=40).filter(
        lambda name: not {0, ord("/")} & {*name} and name not in {b".", b".."}
    )
    return names.map(os.fsdecode)


def usable(name):
    return not any(
        ord(character) < 32 or 127 <= ord(character) < 160 or "\ud800" <= character <= "\udfff" for character in name
    )


def all_examples(test):
    for name in NAMES:
        test = example(name)(test)
    return test


@all_examples
@given(odd_names() | bytes_that_are_no_text())
def test_a_directory_of_any_name_is_reached_under_a_plain_path_or_refused(name):
    with tempfile.TemporaryDirectory() as place:
        folder, run = Path(place, "a", name), Path(place, "run")
        folder.parent.mkdir()
        run.mkdir()
        home = Home(folder)
        if not usable(name):
            with pytest.raises(DirectoryError, match=r"control characters.*Choose another one") as refused:
                home.open()
            assert str(refused.value).isprintable()
            assert not any(folder.parent.iterdir())
            return
        home.open()
        home.link_from(run)
        try:
            check_settings(home, run, name)
        finally:
            home.close()
        assert [path.name for path in folder.parent.iterdir()] == [name]


def check_settings(home, run, name):
    """Check that all paths given to Spark are plain, and lead into the directory or the folder of the run."""
    assert is_safe_path(home.for_spark)
    assert home.for_spark.samefile(home.path)
    settings = _all_settings("An Application", home, SparkOptions(), "", run)
    log4j = Path(settings["spark.driver.extraJavaOptions"].partition("file://")[2].partition(" ")[0])
    properties = dict(line.split(" = ", 1) for line in log4j.read_text().splitlines())
    log = Path(properties["appender.file.fileName"])
    assert log.parent.samefile(home.spark_log.parent)
    assert log.name == home.spark_log.name
    for path in (home.for_spark, log4j, log, settings["spark.local.dir"], settings["spark.sql.warehouse.dir"]):
        assert is_safe_path(path)
    # Spark finds out where links lead to, and a comma would make two folders of one.
    Path(settings["spark.local.dir"]).mkdir()
    scratch = os.path.realpath(settings["spark.local.dir"])
    assert scratch.isascii()
    assert scratch.isprintable()
    assert "," not in scratch
    if name.isascii() and "," not in name:
        assert Path(scratch).parent.samefile(home.path)


def test_a_plain_directory_is_passed_to_spark_as_it_is(tmp_path):
    home = Home(tmp_path / "state-1.x_y+z")
    home.link_from(tmp_path)
    assert home.for_spark == home.path
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["spark", "my spark"])
def test_a_path_from_the_current_folder_is_reached_from_everywhere(tmp_path, monkeypatch, name):
    (tmp_path / "run").mkdir()
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    plain = safe_path(Path(name), tmp_path / "run" / "spark")
    assert is_safe_path(plain)
    assert plain.samefile(name)


def test_a_path_that_leaves_no_room_for_files_is_refused_and_the_longest_that_does_is_not(tmp_path):
    most = os.pathconf("/", "PC_PATH_MAX") - 512
    folder = tmp_path
    while len(str(folder)) < most - 257:
        folder /= "x" * 255
    too_long = folder / ("y" * (most - len(str(folder))))
    assert len(str(too_long)) == most + 1
    with pytest.raises(DirectoryError, match=rf"its path has {most + 1:,} bytes, and may have {most:,} at most"):
        Home(too_long).open()
    assert not any(tmp_path.iterdir())
    home = Home(too_long.with_name(too_long.name[:-1]))
    home.open()
    home.close()


@pytest.mark.parametrize("name", ["my state", "a,b", "a%20b", "a#b", "$HOME", "grüße"])
def test_on_a_cluster_a_name_that_is_not_plain_is_refused(tmp_path, name):
    require_safe_path(tmp_path)
    with pytest.raises(DirectoryError, match=r"cannot be used on a cluster.*--resilience-dir"):
        require_safe_path(tmp_path / name)
