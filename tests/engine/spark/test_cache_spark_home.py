"""The folder that Spark takes as its home."""

from pathlib import Path

import pyspark
import pytest
from tests.processes import run_python

from wallaroo.engine.directory.quote_free_paths import is_safe_path
from wallaroo.engine.spark.cache import spark_home, usable_cache

INSTALLED = Path(pyspark.__file__).parent


@pytest.fixture
def notices():
    return []


@pytest.fixture
def home_in(notices):
    """Return a function that makes the home in a cache, and returns it."""
    return lambda cache, installed=INSTALLED: spark_home(installed, cache, notices.append)


def test_it_has_the_programs_and_not_the_zipped_copy_of_pyspark(home_in, notices, tmp_path):
    home = home_in(usable_cache(notices.append, tmp_path / "deep" / "cache"))
    assert sorted(path.name for path in home.iterdir()) == ["bin", "jars"]
    assert (home / "bin" / "spark-submit").is_file()
    assert list((home / "jars").glob("spark-core_*.jar"))
    assert (INSTALLED / "python" / "lib" / "pyspark.zip").is_file()
    assert not (home / "python").exists()
    assert notices == []


def test_it_is_made_once_and_each_installation_has_its_own(home_in, notices, tmp_path):
    homes = {home_in(tmp_path), home_in(tmp_path), home_in(tmp_path, tmp_path)}
    assert len(homes) == 2
    assert notices == []


def test_without_a_place_for_it_the_installation_is_used_as_it_is(home_in, notices, tmp_path):
    taken = tmp_path / "taken"
    taken.write_text("")
    assert usable_cache(notices.append, taken / "cache") is None
    assert home_in(None) == INSTALLED
    assert notices == []


@pytest.mark.parametrize("opened", ["wallaroo", "."])
def test_a_cache_that_others_can_write_to_is_not_used_and_that_is_reported(monkeypatch, notices, tmp_path, opened):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache = usable_cache(notices.append)
    assert (cache, notices) == (tmp_path / "wallaroo", [])
    (tmp_path / opened).chmod(0o777)
    assert usable_cache(notices.append) is None
    (said,) = notices
    assert said.startswith(f"The cache folder {cache} is not used, because others can write to {tmp_path / opened}, ")
    assert "set XDG_CACHE_HOME to a folder that only you can write to" in said


def test_a_cache_is_not_looked_for_in_the_current_folder(monkeypatch, notices, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for chosen in ("caches", ""):
        monkeypatch.setenv("XDG_CACHE_HOME", chosen)
        assert usable_cache(notices.append) == tmp_path / "home" / ".cache" / "wallaroo"


def lead_elsewhere(home):
    (home / "bin").unlink()
    (home / "bin").symlink_to(home.parent)


def copy(home):
    (home / "bin").unlink()
    (home / "bin").mkdir()


def add(home):
    """Add what Spark's scripts run wherever they find it."""
    (home / "conf").mkdir()
    (home / "conf" / "spark-env.sh").write_text("")


def open_up(home):
    home.chmod(0o777)


def put_a_link_in_its_place(home):
    home.rename(home.with_name("other"))
    home.symlink_to("other")
    home.chmod(0o777)


@pytest.mark.parametrize("plant", [lead_elsewhere, copy, add, open_up, put_a_link_in_its_place])
def test_planted_files_are_not_run_and_are_reported(home_in, notices, tmp_path, plant):
    home = home_in(tmp_path)
    plant(home)
    assert home_in(tmp_path) == INSTALLED
    assert notices == [
        f"{home} has been changed since Wallaroo created it, and is not used. Starts take longer until you delete it."
    ]


def test_a_process_that_spark_starts_finds_pyspark_where_it_is_installed(home_in, tmp_path):
    home = home_in(tmp_path)
    path = home / "python" / "lib" / "pyspark.zip"  # What Spark puts in front of a worker's path.
    found = run_python("-c", "import pyspark; print(pyspark.__file__)", env={"PYTHONPATH": str(path)})
    assert found.stdout.strip() == pyspark.__file__


@pytest.mark.parametrize("name", ["my cache", "a:b", "a,b", "%20", "${env:HOME}", 'quo"te', "grüße", "-x", "relative"])
def test_a_cache_folder_of_any_name_gives_a_plain_one_that_stays_the_same(monkeypatch, tmp_path, name):
    chosen = name if name == "relative" else str(tmp_path / name)
    monkeypatch.setenv("XDG_CACHE_HOME", chosen)
    if name == "relative":
        monkeypatch.setenv("HOME", str(tmp_path))
    folder = usable_cache(print)
    assert is_safe_path(folder)
    assert folder == usable_cache(print)
    # One that need not be replaced is not.
    assert folder.is_relative_to(tmp_path) == (name in {"-x", "relative"})
