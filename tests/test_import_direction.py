"""Imports point in one direction: modules import only from where the table in CONTRIBUTING.md says."""

import ast
import re
from pathlib import Path

import pytest
from tests.processes import run_python

import wallaroo

ROOT = Path(__file__).parents[1]
PACKAGE = Path(wallaroo.__file__).parent
CORE = "the other modules directly in wallaroo"
MAY_BE_IMPORTED_BY_ALL = {"wallaroo", "wallaroo.engine", "wallaroo.testing", "wallaroo.experimental"}
"""What users import, and what puts its own package together: they may import anything."""
IN_THE_INGRESS = re.compile(r"wallaroo\.connectors\.(\w+\.(source|source_connection)|base)$")
"""The part of a connector that runs in the ingress uses what the ingress has; `base` names its types."""


def table():
    """Return the rows of CONTRIBUTING.md: a package, modules that belong to it, and from where they import."""
    text = (ROOT / "CONTRIBUTING.md").read_text().partition("## Direction of imports")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|(.*)\|$", text, re.MULTILINE)
    return [[re.findall("`(.+?)`", cell) for cell in row] for row in rows]


def dotted(path):
    return path.removesuffix(".py").replace("/", ".")


LAYERS = {dotted(path): dotted(names[0]) for names, _ in table() for path in names}
IMPORTS = {dotted(names[0]): {CORE, *map(dotted, below)} for names, below in table()} | {CORE: set()}


def layer(module):
    """Return the row of the table in which a module is, by the longest name there."""
    parts = module.split(".")[1:]
    names = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((LAYERS[name] for name in names if name in LAYERS), CORE)


def reachable(name):
    """Return a row with all from which it may import, at any distance."""
    found, waiting = {name}, [name]
    while waiting:
        below = IMPORTS[waiting.pop()] - found
        found |= below
        waiting += below
    return found


def name_of(path):
    return ".".join(("wallaroo", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")


def imports_of(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "wallaroo":
            for alias in node.names:
                named = PACKAGE.joinpath(*node.module.split(".")[1:], f"{alias.name}.py")
                yield f"{node.module}.{alias.name}" if named.exists() else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "wallaroo")


MODULES = sorted(path for path in PACKAGE.rglob("*.py") if name_of(path) not in MAY_BE_IMPORTED_BY_ALL)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_imports_only_what_contributing_allows(path):
    module = name_of(path)
    allowed = reachable(layer(module)) | ({"ingress"} if IN_THE_INGRESS.match(module) else set())
    imported = set(imports_of(path)) - MAY_BE_IMPORTED_BY_ALL
    wrong = {each for each in imported if layer(each) not in allowed}
    assert not wrong, f"{module} ({layer(module)}) imports {wrong}"


def test_every_package_is_in_the_table():
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages <= set(LAYERS)


def test_the_table_has_no_cycle():
    assert [name for name, below in IMPORTS.items() if any(name in reachable(each) for each in below)] == []


def test_a_row_does_not_name_what_follows_from_others():
    for name, below in IMPORTS.items():
        for each in below - {CORE}:
            assert not any(each in reachable(other) for other in below - {each}), (name, each)


@pytest.mark.parametrize("package", ["api.builder", "topology.validate", "connectors.registry", "testing"])
def test_what_users_test_with_imports_without_spark(package):
    program = f"import sys, wallaroo.{package}; print('pyspark' in sys.modules)"
    assert run_python("-c", program).stdout == "False\n"
