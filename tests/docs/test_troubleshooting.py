"""The page about errors: every exit code has its section, and what it quotes is what the program says."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import wallaroo
from wallaroo import errors
from wallaroo.cli.exit_codes import EXIT_CODES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
FILLED_IN = "\0"
"""What stands in a text of the program for something that differs from case to case."""


@cache
def texts():
    """Return all texts in the program's code but for docstrings, from whole f-strings to single words."""
    found = []
    for path in Path(wallaroo.__file__).parent.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        docstrings = {node.value for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if node in docstrings:
                continue
            if isinstance(node, ast.JoinedStr):
                parts = (part.value if isinstance(part, ast.Constant) else FILLED_IN for part in node.values)
                found.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                # Regular expressions and formats have their own ways to say what differs.
                found.append(re.sub(r"\\\d|\{\w+(?:!r)?\}", FILLED_IN, node.value))
    return found


def quotes(page):
    return [quote for row in re.findall(r"^\| (`.*?`) \|", page, re.MULTILINE) for quote in re.findall("`(.+?)`", row)]


@pytest.mark.parametrize("quote", quotes(PAGE))
def test_what_is_quoted_is_the_beginning_of_what_the_program_says(quote):
    pattern = re.compile(".*".join(map(re.escape, quote.split("…"))), re.DOTALL)
    assert any(map(pattern.match, texts())), quote


def test_there_are_quotes_enough_to_look_at():
    assert len(set(quotes(PAGE))) > 150


def test_every_exit_code_has_its_section_and_no_other():
    codes = [int(code) for code in re.findall(r"^## Exit code (\d+):", PAGE, re.MULTILINE)]
    assert codes == sorted(EXIT_CODES.keys() - {0})


def test_every_kind_of_error_that_ends_a_run_has_its_section():
    kinds = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, Exception)]
    assert len(kinds) > 5
    for kind in kinds:
        assert f"## Exit code {kind.exit_code}:" in PAGE, kind
