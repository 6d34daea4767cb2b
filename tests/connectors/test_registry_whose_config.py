"""Only connectors check the class of a config, so a further connector is just a further package."""

import ast
from pathlib import Path

import pytest

import wallaroo
from wallaroo.connectors.registry import SINKS, SOURCES

SOURCE = Path(wallaroo.__file__).parent
CONFIGS = {kind.config_class.__name__ for kind in [*SOURCES, *SINKS]} | {"config_class"}


def names_in(*nodes):
    found = [each for node in nodes for each in ast.walk(node)]
    return {each.id for each in found if isinstance(each, ast.Name)} | {
        each.attr for each in found if isinstance(each, ast.Attribute)
    }


def asks_for(node):
    """Return the names of classes that an expression, or a pattern, compares something with."""
    match node:
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, *classes]):
            return names_in(*classes)
        case ast.MatchClass(cls=cls):
            return names_in(cls)
        case ast.Compare(left=left, comparators=others) if "type" in names_in(left, *others):
            return names_in(left, *others)
    return set()


def questions(text):
    return [node.lineno for node in ast.walk(ast.parse(text)) if asks_for(node) & CONFIGS]


@pytest.mark.parametrize(
    "text",
    [
        "isinstance(config, TCPSourceConfig)",
        "isinstance(config, int | wallaroo.GenSourceConfig)",
        "any(issubclass(each, (str, TCPSinkConfig)) for each in classes)",
        "isinstance(config, kind.config_class)",
        "type(config) is TCPSinkConfig",
        "match config:\n    case wallaroo.TCPSourceConfig(host=host): ...",
    ],
)
def test_such_questions_are_found(text):
    assert questions(text)


@pytest.mark.parametrize("text", ["TCPSourceConfig(host, port, decode)", "isinstance(config, str)"])
def test_others_are_not(text):
    assert not questions(text)


def test_only_the_connectors_ask_for_the_class_of_a_config():
    files = [path for path in SOURCE.rglob("*.py") if SOURCE / "connectors" not in path.parents]
    assert len(files) > 100
    found = {str(path.relative_to(SOURCE)): lines for path in files if (lines := questions(path.read_text()))}
    assert not found
