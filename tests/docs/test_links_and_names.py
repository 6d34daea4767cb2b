"""What the documents point to exists: files, headings and tests."""

import ast
import re
import tomllib
from pathlib import Path

import pytest
from tools.reference_pages import filled

from wallaroo.cli.wallaroo import main as wallaroo

ROOT = Path(__file__).parents[2]
PLACES = ("*.md", "docs/**/*.md", "examples/**/*.md", "tests/**/*.md", "benchmarks/*.md")
DOCUMENTS = sorted(path for place in PLACES for path in ROOT.glob(place))
PAGES = sorted(ROOT.glob("docs/**/*.md"))


def anchors(document):
    """Return the names under which the headings of a document can be linked to, in their order."""
    headings = re.findall(r"^#+ (.*)$", without_code(filled(document.read_text())), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


def without_code(text):
    """Return a document without its fenced blocks, in which a `#` begins a comment."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "document", sorted((ROOT / "docs").rglob("*.md")), ids=lambda path: str(path.relative_to(ROOT))
)
def test_every_heading_of_a_page_has_an_anchor_of_its_own(document):
    # A git forge and the site number headings of the same name in different ways.
    found = anchors(document)
    assert len(set(found)) == len(found), found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(document):
    for link in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
        if link.startswith("https://"):
            continue
        path, _, heading = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        assert target.exists(), link
        assert not heading or heading in anchors(target), link


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_prose_is_wrapped_at_120_columns(document):
    lines = without_code(document.read_text()).splitlines()
    # A row of a table is one line, as is one of indented code, and a long link cannot be broken.
    prose = [line for line in lines if not line.startswith(("|", "    ")) and " " in line.strip()]
    assert [line for line in prose if len(line) > 120] == []


def guarantees():
    """Return the page of guarantees in two parts: the promises, and the appendix that names their tests."""
    promises, heading, appendix = (
        (ROOT / "docs" / "explanation" / "guarantees.md").read_text().partition("\n## Appendix")
    )
    assert heading
    return promises, appendix


def test_every_test_that_the_guarantees_name_exists():
    named = set(re.findall(r"`(test_\w+)`", "".join(guarantees())))
    assert len(named) > 30
    defined = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^ *def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert named <= defined, named - defined


def test_every_promise_of_the_guarantees_names_a_test():
    text, appendix = guarantees()
    promises = re.findall(r"^(?:- |\| )\*\*([A-Z]\d+)\*\* ", text, re.MULTILINE)
    rows = re.findall(r"^\| \*\*([A-Z]\d+)\*\* \| (.*) \|$", appendix, re.MULTILINE)
    assert len(promises) > 60
    assert len(set(promises)) == len(promises)
    assert sorted(number for number, _ in rows) == sorted(promises)
    assert [number for number, shown_by in rows if not re.search(r"`test_\w+`", shown_by)] == []


def test_every_line_of_a_table_of_promises_has_a_number():
    text, _ = guarantees()
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| | ")]
    assert len(rows) > 40
    assert [row for row in rows if not re.match(r"\| \*\*[A-Z]\d+\*\* \| ", row)] == []


PACKAGE = ROOT / "src" / "wallaroo"
MODULE = "`([a-z_]+(?:\\.[a-z_]+)*)`"


def modules():
    """Return the names of the package's modules and folders, also without the folders that they are in."""
    paths = [path.relative_to(PACKAGE).with_suffix("").parts for path in PACKAGE.rglob("*.py")]
    known = {".".join(parts[index:]).removesuffix(".__init__") for parts in paths for index in range(len(parts))}
    return known | {".".join(path.relative_to(PACKAGE).parts) for path in PACKAGE.rglob("*") if path.is_dir()}


def test_every_module_that_the_design_names_exists():
    design = (ROOT / "docs" / "explanation" / "design.md").read_text()
    # What stands in front of, or inside, parentheses behind a description is a module; settings and names of the API
    # are written with a prefix, with capitals, or with parentheses.
    named = set(re.findall(MODULE, design)) - {"application_setup", "save_state"}
    unknown = {name for name in named - modules() if not name.startswith("spark.")}
    assert len(named) > 50
    assert not unknown


@pytest.mark.parametrize(
    "package", sorted(PACKAGE.rglob("*/__init__.py")), ids=lambda path: str(path.relative_to(PACKAGE).parent)
)
def test_every_module_that_a_package_says_it_has_exists(package):
    text = ast.get_docstring(ast.parse(package.read_text()))
    named = {name.removeprefix("wallaroo.") for name in re.findall(MODULE, text)}
    assert named - modules() - {"machida", "wallaroo"} == set()


def test_no_change_needs_more_files_than_three():
    table = (ROOT / "CONTRIBUTING.md").read_text().partition("## To change something")[2].partition("\n### ")[0]
    rows = re.findall(r"^\| (.*?) \| (.*) \|$", table, re.MULTILINE)[1:]
    assert len(rows) > 6
    for to, where in rows:
        # Modules in parentheses are there to be looked at.
        named = re.findall(r"`[\w./]+\.\w+`|a new module", re.sub(r"\(.*?\)", "", where))
        assert len(set(named)) <= 3, (to, named)


def test_every_path_that_contributing_names_exists():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    tests_to_run = re.findall(r"^ +\.venv/bin/pytest (\w+/[\w./]+)(?:::(\w+))?", text, re.MULTILINE)
    assert len(tests_to_run) > 2
    for path, test in tests_to_run:
        assert (ROOT / path).exists(), path
        assert not test or f"\ndef {test}(" in (ROOT / path).read_text(), test
    # Code is named as it is seen from the package, and everything else as it is seen from the project's folder.
    named = set(re.findall(r"`([\w.-]+/[\w./-]*)`", text))
    assert len(named) > 10
    missing = {path for path in named if not (ROOT / path).exists() and not (PACKAGE / path).exists()}
    assert not missing


def test_every_command_has_the_module_that_contributing_says():
    package = PACKAGE / "cli"
    commands = {path.stem.replace("_", "-") for path in (package / "commands").glob("*.py")} - {"--init--"}
    assert commands == set(wallaroo.list_commands(None))
    assert (package / "machida.py").exists()
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["machida"] == "wallaroo.cli.machida:main"
