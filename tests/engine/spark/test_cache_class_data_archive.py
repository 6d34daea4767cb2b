"""The class-data archive of Spark's JVM."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from wallaroo.engine.spark.cache import ClassDataArchive


@pytest.fixture
def java(tmp_path):
    """Return the home of a JDK that comes with an archive of its own."""
    home = tmp_path / "jdk"
    for name in ("bin/java", "lib/server/classes.jsa"):
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text("")
    return home


def option(options, name):
    (value,) = [each.partition("=")[2] for each in shlex.split(options) if each.startswith(f"-XX:{name}=")]
    return value


def test_the_first_run_writes_what_later_runs_use(java, tmp_path):
    cache = tmp_path / "deep" / "a cache"
    first = ClassDataArchive(str(java), "spark", "4.3.0", cache)
    written = option(first.java_options(), "ArchiveClassesAtExit")
    with open(written, "w") as file:  # noqa: PTH123 - as the JVM opens it
        file.write("classes")
    first.keep()
    used = option(ClassDataArchive(str(java), "spark", "4.3.0", cache).java_options(), "SharedArchiveFile")
    assert [str(path) for path in cache.iterdir()] == [used]
    assert cache.joinpath(used).read_text() == "classes"


def test_while_one_run_is_going_to_write_it_others_do_not(java, tmp_path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        archive = ClassDataArchive(str(java), "spark", "4.3.0", tmp_path / "cache")
        written = Path(option(archive.java_options(), "ArchiveClassesAtExit"))
        writer = written.with_suffix(".writer")
        writer.write_text(str(other.pid))
        assert archive.java_options() == ""
        archive.keep()
        assert writer.exists()
        os.utime(writer, (1, 1))
        assert option(archive.java_options(), "ArchiveClassesAtExit")
        writer.write_text(str(other.pid))
        other.communicate()
    # The other has ended without writing it.
    assert option(archive.java_options(), "ArchiveClassesAtExit")


def test_a_jvm_that_wrote_nothing_leaves_nothing(java, tmp_path):
    archive = ClassDataArchive(str(java), "spark", "4.3.0", tmp_path / "cache")
    archive.java_options()
    archive.keep()
    assert list((tmp_path / "cache").iterdir()) == []


def test_other_versions_have_other_archives(java, tmp_path):
    options = {ClassDataArchive(str(java), "spark", version, tmp_path).java_options() for version in ("4.3.0", "4.3.1")}
    (java / "bin" / "java").write_text("an update")
    options.add(ClassDataArchive(str(java), "spark", "4.3.0", tmp_path).java_options())
    options.add(ClassDataArchive(str(java), "another spark", "4.3.0", tmp_path).java_options())
    assert len(options) == 4


def test_a_spark_that_was_installed_again_gets_an_archive_that_fits_in_place_of_the_old_one(java, tmp_path):
    jar, cache = tmp_path / "spark" / "jars" / "spark.jar", tmp_path / "cache"
    jar.parent.mkdir(parents=True)
    archives = []
    for time in (1, 2):
        jar.write_text("classes")
        os.utime(jar, (time, time))
        archive = ClassDataArchive(str(java), str(tmp_path / "spark"), "4.3.0", cache)
        Path(option(archive.java_options(), "ArchiveClassesAtExit")).write_text("archive")
        archive.keep()
        again = ClassDataArchive(str(java), str(tmp_path / "spark"), "4.3.0", cache)
        archives.append(option(again.java_options(), "SharedArchiveFile"))
        assert [str(path) for path in cache.iterdir()] == archives[-1:]
    assert archives[0] != archives[1]


def test_a_java_without_an_archive_of_its_own_gets_none(java, tmp_path):
    (java / "lib" / "server" / "classes.jsa").unlink()
    assert ClassDataArchive(str(java), "spark", "4.3.0", tmp_path).java_options() == ""


def test_without_a_folder_there_is_no_archive(java, tmp_path):
    (tmp_path / "file").write_text("")
    assert ClassDataArchive(str(java), "spark", "4.3.0", tmp_path / "file" / "cache").java_options() == ""


@pytest.mark.parametrize("name", ["SharedArchiveFile", "ArchiveClassesAtExit"])
def test_an_archive_that_others_can_write_to_or_a_link_is_not_used(java, tmp_path, name):
    cache = tmp_path / "cache"
    archive = ClassDataArchive(str(java), "spark", "4.3.0", cache)
    written = Path(option(archive.java_options(), "ArchiveClassesAtExit"))
    written.write_text("classes")
    archive.keep()
    (kept,) = cache.iterdir()
    again = ClassDataArchive(str(java), "spark", "4.3.0", cache)
    assert option(again.java_options(), "SharedArchiveFile") == str(kept)
    planted = kept if name == "SharedArchiveFile" else written
    planted.write_text("planted")
    planted.chmod(0o666)
    if planted == written:
        again.keep()
        assert kept.read_text() == "classes"
    else:
        assert option(again.java_options(), "ArchiveClassesAtExit") == str(written)
        kept.rename(tmp_path / "elsewhere")
        (tmp_path / "elsewhere").chmod(0o600)
        kept.symlink_to(tmp_path / "elsewhere")
        assert option(again.java_options(), "ArchiveClassesAtExit") == str(written)


def test_without_a_cache_there_is_no_archive(java, tmp_path):
    archive = ClassDataArchive(str(java), "spark", "4.3.0", None)
    assert archive.java_options() == ""
    archive.keep()
