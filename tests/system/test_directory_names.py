"""Folders with any characters in their names, of any length: the application's, its code's, the cache, temporary ones.

The application has two states in a row, so each worker connects to the sockets of several states.
"""

import os
import shutil
import sys
import sysconfig
import tempfile
import venv
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from tests.processes import MACHIDA

from .harness import APPS, send

ASCII = "-n %20%#?$HOME${env:HOME}${sys:user.home}'\"`id`{a}*:;\\u0041\\&|<>=@!~^()[] "
UNICODE = "-Ä 🦘,%41#?$(id)${env:HOME}'\"`{}*:\\n "
SOCKET = "/.01234567-89ab-cdef-0123-456789abcdef.sock"


@pytest.fixture
def place():
    """Return a folder with a short path: the names in it are to be long."""
    with tempfile.TemporaryDirectory(prefix="w-", dir="/tmp") as folder:
        yield Path(folder)


def longest_for_sockets(place):
    """Return a temporary folder with the longest path that leaves room for the names of sockets."""
    below = len(f"/wallaroo-{os.getuid()}/.run/12345678{SOCKET}")
    return place / ("t" * (103 - below - len(f"{place}/")))


def of_length(folder, size):
    """Return a path below `folder` of so many bytes, of names as long as they may be."""
    while len(str(folder)) + 256 < size - 1:
        folder /= "l" * 255
    return folder / ("m" * (size - len(f"{folder}/")))


def installation(folder):
    """Make a virtual environment in which all that is installed here is installed as well; return its Python."""
    venv.create(folder, symlinks=True)
    packages = folder / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    packages.rmdir()
    packages.symlink_to(sysconfig.get_path("purelib"))
    return folder / "bin" / Path(sys.executable).name


def machida_of(python):
    """Return how to start machida with another Python."""
    return [python, *MACHIDA[1:]]


class Answers:
    """What the application has to answer: how often a word came, and how many letters that were in all."""

    def __init__(self):
        self.counts = Counter()
        self.lines = defaultdict(list)

    def to(self, *words):
        for word in words:
            self.counts[word] += 1
            self.lines[word].append(f"{word} => {self.counts[word]} {self.counts[word] * len(word)}")

    def size(self):
        return sum(len(line) + 1 for lines in self.lines.values() for line in lines)


def by_word(data):
    found = defaultdict(list)
    for line in data.decode().splitlines():
        found[line.partition(" ")[0]].append(line)
    return found


def names(folder):
    return {path.name for path in folder.iterdir()}


@pytest.mark.timeout(900)
def test_state_is_kept_in_folders_of_any_name(machida, receiver, place):
    sink, answers = receiver(), Answers()
    code, cache = place / "code" / UNICODE, place / "cache" / UNICODE
    code.mkdir(parents=True)
    cache.mkdir(parents=True)
    shutil.copy(APPS / "editions.py", code)

    def start(home, temporary, *options, command=()):
        temporary.mkdir(exist_ok=True)
        arguments = ["--application-module", "editions", "--edition", "1", "--in", "127.0.0.1:0,127.0.0.1:0"]
        arguments += ["--out", sink.address, "--resilience-dir", home, *options]
        variables = {"TMPDIR": str(temporary), "LC_ALL": "C"}
        if command:
            # For another installation, whose classes no other run has put into the cache: that takes its time.
            variables["XDG_CACHE_HOME"] = str(cache)
        return machida(*arguments, folder=code, command=command, **variables).wait_until_ready()

    def exchange(run, *words):
        send(run.address("words"), words)
        answers.to(*words)
        run.wait_until(lambda: sink.size >= answers.size(), "the answers")
        run.stop()
        assert by_word(sink.everything()) == answers.lines

    def stream(home):
        return (home / "ledger").read_text().splitlines()[0]

    homes = [
        place / "homes" / ASCII,
        place / "homes" / UNICODE,
        of_length(place / "long", os.pathconf("/", "PC_PATH_MAX") - 512),
    ]
    temporary = [longest_for_sockets(place), place / "Capitals", place / UNICODE]

    # Sockets fit into the temporary folder, just so. What Spark need not keep is in the directory.
    run = start(homes[0], temporary[0])
    assert any((homes[0] / "scratch").iterdir())
    assert any((temporary[0] / f"wallaroo-{os.getuid()}" / ".run").iterdir())
    exchange(run, "kiwi", "kiwi", "plum")
    first = stream(homes[0])

    # A directory that has moved continues. What Spark need not keep is elsewhere: it would not know these characters.
    # Nor are sockets in the temporary folder, for Spark's workers would look for them in small letters.
    homes[0].rename(homes[1])
    run = start(homes[1], temporary[1], command=machida_of(installation(place / "venv" / UNICODE.replace(":", ""))))
    assert "resuming where it stopped" in run.output
    assert not (homes[1] / "scratch").exists()
    exchange(run, "plum", "kiwi", "fig")
    assert stream(homes[1]) == first

    # The directory has the longest path that one may have.
    homes[2].parent.mkdir(parents=True)
    homes[1].rename(homes[2])
    run = start(homes[2], temporary[2], "--reset")
    answers.counts.clear()
    exchange(run, "kiwi", "fig")
    assert stream(homes[2]) != first

    # Nothing is anywhere else: not under a name that was quoted, cut short or taken for several.
    assert names(place) == {"code", "cache", "homes", "long", "venv", *(folder.name for folder in temporary)}
    assert names(code.parent) == names(cache.parent) == {UNICODE}
    assert names(code) - {"__pycache__"} == {"editions.py"}
    assert not any([*homes[0].parent.iterdir(), *cache.iterdir(), *temporary[1].iterdir(), *temporary[2].iterdir()])
    assert names(homes[2].parent) == {homes[2].name}
