"""The folder that Spark takes as its home."""

import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from wallaroo.engine.directory.plain_names import is_plain
from wallaroo.engine.spark.spark_home import cache_folder, spark_home

INSTALLED = Path(pyspark.__file__).parent


def test_it_has_the_programs_and_not_the_zipped_copy_of_pyspark(tmp_path):
    home = spark_home(INSTALLED, tmp_path / "deep" / "cache")
    assert sorted(path.name for path in home.iterdir()) == ["bin", "jars"]
    assert (home / "bin" / "spark-submit").is_file()
    assert list((home / "jars").glob("spark-core_*.jar"))
    assert (INSTALLED / "python" / "lib" / "pyspark.zip").is_file()
    assert not (home / "python").exists()


def test_it_is_made_once_and_each_installation_has_its_own(tmp_path):
    homes = {spark_home(INSTALLED, tmp_path), spark_home(INSTALLED, tmp_path), spark_home(tmp_path, tmp_path)}
    assert len(homes) == 2


def test_without_a_place_for_it_the_installation_is_used_as_it_is(tmp_path):
    taken = tmp_path / "taken"
    taken.write_text("")
    assert spark_home(INSTALLED, taken / "cache") == INSTALLED


def test_a_process_that_spark_starts_finds_pyspark_where_it_is_installed(tmp_path):
    home = spark_home(INSTALLED, tmp_path)
    path = home / "python" / "lib" / "pyspark.zip"  # What Spark puts in front of a worker's path.
    command = [sys.executable, "-c", "import pyspark; print(pyspark.__file__)"]
    found = subprocess.run(command, env={"PYTHONPATH": str(path)}, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == pyspark.__file__


@pytest.mark.parametrize("name", ["my cache", "a:b", "a,b", "%20", "${env:HOME}", 'quo"te', "grüße", "-x", "relative"])
def test_a_cache_folder_of_any_name_gives_a_plain_one_that_stays_the_same(monkeypatch, tmp_path, name):
    chosen = name if name == "relative" else str(tmp_path / name)
    monkeypatch.setenv("XDG_CACHE_HOME", chosen)
    folder = cache_folder()
    assert is_plain(folder)
    assert folder == cache_folder()
    # One that need not be replaced is not.
    assert folder.is_relative_to(chosen) == (name == "-x")
