"""The picture of the packages: up to date, and true to the imports that are there."""

import itertools
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from tests.processes import run_python
from tools.draw_modules import BASE, FACADE, Picture, drawn, in_order, read_imports, rows_of, without_implied

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "draw_modules.py"


def run(*arguments):
    return run_python(TOOL, *arguments, code=None)


def test_the_picture_is_up_to_date():
    done = run("--check")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def package(tmp_path):
    """Write a package with a command, an engine of two parts, an interface, and a module beside them."""
    files = {
        "__init__.py": "from wallaroo.api.words import word\n",
        "errors.py": "",
        "api/words.py": "from wallaroo.errors import Problem\n",
        "engine/run.py": "from wallaroo.engine.parts.one import part\nimport wallaroo.api.words\n",
        "engine/parts/one.py": (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from wallaroo.cli.main import main\n"
            "def later():\n    from wallaroo.api import words\n"
        ),
        "cli/main.py": "import json\nfrom wallaroo.engine import run\nfrom wallaroo.errors import Problem\n",
    }
    folder = tmp_path / "wallaroo"
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_imports_are_read_from_the_code_but_for_those_of_the_type_checker(package):
    assert dict(read_imports(package)) == {
        (FACADE, "api"): 1,
        ("api", BASE): 1,
        ("engine", "engine.parts"): 1,
        ("engine", "api"): 1,
        ("engine.parts", "api"): 1,
        ("cli", "engine"): 1,
        ("cli", BASE): 1,
    }


def test_importers_are_drawn_above_and_transitive_arrows_are_left_out(package):
    edges = read_imports(package)
    picture = Picture(edges)
    assert picture.backward == []
    assert picture.row_of == {BASE: 0, "api": 1, "engine.parts": 2, "engine": 3, "cli": 4, FACADE: 2}
    ways = {("cli", "engine"), ("engine", "engine.parts"), ("engine.parts", "api"), ("api", BASE), (FACADE, "api")}
    assert set(picture.ways) == ways


def test_an_import_against_the_order_is_drawn_as_an_exception(package):
    (package / "api" / "words.py").write_text("from wallaroo.errors import A, B\nfrom wallaroo.cli import main\n")
    picture = Picture(read_imports(package))
    assert picture.backward == [("api", "cli")]
    text = drawn(read_imports(package))
    assert text.count('class="exception"') == 1
    assert text.count('class="way"') == len(picture.ways) - 1


def test_the_picture_is_xml_with_a_box_for_each_package(package):
    words = [each.text for each in ET.fromstring(drawn(read_imports(package))).iter() if each.text]
    assert {"cli", "engine", "engine.parts", "api", FACADE, BASE} <= set(words)


def test_boxes_of_a_row_do_not_overlap():
    picture = Picture(read_imports(ROOT / "src" / "wallaroo"))
    for row in picture.rows:
        for left, right in itertools.pairwise(row):
            assert left.x + left.width / 2 < right.x - right.width / 2


def test_a_changed_import_makes_the_picture_out_of_date(package, tmp_path):
    picture = tmp_path / "picture.svg"
    places = ("--source", package, "--picture", picture)
    assert run("--check", *places).returncode == 1
    assert run(*places).returncode == 0
    assert run("--check", *places).returncode == 0
    (package / "engine" / "run.py").write_text("from wallaroo.errors import Problem\n")
    done = run("--check", *places)
    assert done.returncode == 1
    assert re.search("out of date: run python tools/draw_modules.py", done.stdout)


def test_the_order_has_as_few_imports_backwards_as_possible():
    edges = {("a", "b"): 3, ("b", "c"): 3, ("c", "a"): 1, ("c", "d"): 2, ("d", "b"): 1}
    assert in_order(edges) == ["a", "b", "c", "d"]
    assert rows_of(["a", "b", "c"], [("a", "b"), ("b", "c"), ("a", "c")]) == {"c": 0, "b": 1, "a": 2}
    assert without_implied([("a", "b"), ("b", "c"), ("a", "c")]) == [("a", "b"), ("b", "c")]
