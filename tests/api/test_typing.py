"""What a type checker says about programs: nothing about one that is right, and where the mistakes of another are."""

import re
from pathlib import Path

import pytest
from tests.processes import run_python

from . import typed_program

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RIGHT, WRONG = HERE / "typed_program.py", HERE / "wrongly_typed_program.py"


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Return what mypy reports of both programs: the file, the line and the kind of each error."""
    cache = tmp_path_factory.mktemp("mypy")
    command = ["-m", "mypy", "--strict", "--cache-dir", cache, "--follow-imports", "silent"]
    done = run_python(*command, RIGHT, WRONG, cwd=ROOT, code=1, timeout=500)
    found = re.findall(r"^(\S+?):(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.MULTILINE)
    assert found, done.stdout + done.stderr
    return {(Path(file).name, int(line), kind) for file, line, kind in found}


def test_a_right_program_has_no_errors(reports):
    assert not {report for report in reports if report[0] == RIGHT.name}


def test_each_mistake_is_found_on_its_line(reports):
    marked = enumerate(WRONG.read_text().splitlines(), 1)
    expected = {(WRONG.name, number, mark[1]) for number, line in marked if (mark := re.search("# error: (.*)", line))}
    assert {report for report in reports if report[0] == WRONG.name} == expected


def test_the_right_program_runs():
    assert typed_program.results() == (["why", "hello"], b"why", {"words": [b"why"]})
    assert typed_program.calls() == (5, "WHY", "a", ("why", 1))
