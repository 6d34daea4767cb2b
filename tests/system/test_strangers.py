"""A machine on which another user has put files wherever others can write."""

import hashlib
import os
import tempfile
from pathlib import Path

import pyspark
import pytest
from tests.processes import WALLAROO, run_to_end

from .harness import environment, send

PLANTED = "#!/bin/sh\ntouch '{trace}'\nexit 1\n"


@pytest.fixture
def temporary():
    """Return a temporary folder in which every user can write, with a path as short as usual ones have."""
    with tempfile.TemporaryDirectory(prefix="w-", dir="/tmp") as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


def plant_a_spark(caches, trace):
    """Put another user's Spark where Wallaroo would have its own."""
    installed = Path(pyspark.__file__).parent
    home = caches / "wallaroo" / f"spark-home-{hashlib.sha256(str(installed).encode()).hexdigest()[:16]}"
    (home / "bin").mkdir(parents=True)
    for name in ("spark-submit", "spark-class"):
        (home / "bin" / name).write_text(PLANTED.format(trace=trace))
        (home / "bin" / name).chmod(0o755)
    (home / "jars").symlink_to(installed / "jars")
    caches.chmod(0o777)


def test_planted_files_are_not_run_and_do_not_prevent_a_run(machida, receiver, temporary, tmp_path):
    trace, caches, elsewhere, states = (tmp_path / name for name in ("trace", "caches", "elsewhere", "states"))
    plant_a_spark(caches, trace)
    elsewhere.mkdir()
    usual = temporary / f"wallaroo-{os.getuid()}"
    usual.symlink_to(elsewhere)
    sink = receiver()
    variables = {"XDG_CACHE_HOME": str(caches), "XDG_STATE_HOME": str(states), "TMPDIR": str(temporary)}
    run = machida(
        *("--application-module", "word_count", "--in", "127.0.0.1:0", "--out", sink.address), **variables
    ).wait_until_ready()
    assert f"The cache folder {caches}/wallaroo is not used, because others can write to {caches}," in run.output
    assert f"Warning: others can write to {temporary}, and anyone who can write there" in run.output
    send(run.address("Split and Count"), ["hello"])
    run.wait_until(lambda: sink.size >= len("hello => 1\n"), "the count")
    run.stop()
    assert not trace.exists()
    assert list(elsewhere.iterdir()) == []

    own = usual.with_name(f"{usual.name}-2")
    assert [path.name for path in own.iterdir()] == [".run"]
    (home,) = (states / "wallaroo").iterdir()
    assert f"  state in    {home}\n" in run.output
    assert (home / "commit.json").is_file()
    # The commands find it under the same name.
    command = [*WALLAROO, "dead-letters", "list", "--application", home.name.replace("-", " ")]
    assert run_to_end(*command, env=environment(**variables)).stderr == "There are none.\n"
