"""Every attribute of an object is born in its `__init__`, or declared in its class, where a reader looks for it."""

import ast
from pathlib import Path

import pytest

import wallaroo

PACKAGE = Path(wallaroo.__file__).parent
BORN_IN_A_BASE = {
    "connect/http_server.py": {"_Handler": {"close_connection"}},
    "connectors/kafka/producers.py": {"TransactionalProducer": {"_client"}},
    "engine/spark/gateway.py": {
        # Of py4j's classes, whose methods these replace.
        "_Connection": {"socket", "stream", "is_connected", "initiated_from_client"},
        "_Server": {"server_socket", "thread"},
    },
}
"""Attributes that a base class defines."""


def functions(tree):
    """Return the methods whose first argument is the object."""
    found = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    others = {"classmethod", "staticmethod"}
    return [node for node in found if not others & {getattr(each, "id", None) for each in node.decorator_list}]


def declared(tree):
    """Yield the names that a class body gives a value or a type."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def assigned(method):
    """Yield the attributes of `self` that a method assigns, however it does."""
    first = method.args.args[0].arg if method.args.args else None
    for node in ast.walk(method):
        is_assigned = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        if is_assigned and isinstance(node.value, ast.Name) and node.value.id == first:
            yield node.attr


def born_late(tree):
    """Return the attributes that appear in other methods than `__init__` first."""
    known = set(declared(tree))
    for method in functions(tree):
        if method.name in {"__init__", "__new__"}:
            known.update(assigned(method))
    return {name for method in functions(tree) for name in assigned(method)} - known


CLASSES = {
    f"{path.relative_to(PACKAGE)} {tree.name}": (str(path.relative_to(PACKAGE)), tree)
    for path in sorted(PACKAGE.rglob("*.py"))
    for tree in ast.walk(ast.parse(path.read_text()))
    if isinstance(tree, ast.ClassDef)
}


@pytest.mark.parametrize(("path", "tree"), CLASSES.values(), ids=CLASSES)
def test_attributes_are_born_in_the_constructor(path, tree):
    assert born_late(tree) == BORN_IN_A_BASE.get(path, {}).get(tree.name, set())


def test_a_late_attribute_is_noticed():
    (tree,) = ast.parse(
        "class Late:\n"
        "    early: int\n"
        "    def __init__(self):\n"
        "        self.born = 1\n"
        "    def run(self):\n"
        "        self.early = self.born = 2\n"
        "        with open('x') as self.file, other as self.born: pass\n"
        "        for self.each in (): pass\n"
        "        (self.one, [self.two]) = 1, [2]\n"
    ).body
    assert born_late(tree) == {"file", "each", "one", "two"}
