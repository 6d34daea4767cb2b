"""Imports point in one direction: from the commands down to what everything rests on, as CONTRIBUTING.md says."""

import ast
import re
from pathlib import Path

import pytest

import wallaroo

PACKAGE = Path(wallaroo.__file__).parent
_BELOW_ENGINE = {"ingress", "program", "topology", "connectors", "core"}
MAY_IMPORT = {
    "core": set(),
    "connectors": {"core"},
    "topology": {"connectors", "core"},
    "api": {"topology", "connectors", "core"},
    "experimental": {"api", "topology", "connectors", "core"},
    "program": {"topology", "core"},
    "ingress": {"program", "topology", "connectors", "core"},
    "engine.transport": _BELOW_ENGINE,
    "engine.directory": {"engine.transport", *_BELOW_ENGINE},
    "engine.delivery": {"engine.directory", "engine.transport", *_BELOW_ENGINE},
    "engine.stages": {"engine.transport", *_BELOW_ENGINE},
    "engine.spark": {"engine.stages", "engine.directory", "engine.transport", *_BELOW_ENGINE},
    "testing": {"engine.stages", "engine.transport", *_BELOW_ENGINE},
}
MAY_IMPORT["engine"] = {"engine.spark", "engine.stages", "engine.delivery", "engine.directory", "engine.transport"}
MAY_IMPORT["engine"] |= _BELOW_ENGINE
MAY_IMPORT["cli"] = {"engine", "testing", *MAY_IMPORT["engine"]}
MAY_IMPORT["connect"] = {"cli", "experimental", *MAY_IMPORT["cli"]}
WITH_TRANSPORT = {"failure_kinds", "loop_codegen", "metrics", "plan", "state_manifest"}
"""The modules of `engine` itself that its packages rest on, together with `transport`; the others use the packages."""
FACADE = {"wallaroo", "wallaroo.engine", "wallaroo.testing", "wallaroo.experimental"}
"""What users import, and what puts its own package together: they may import anything."""
SOURCE_HALF = re.compile(r"wallaroo\.connectors\.(\w+\.(source|source_connection)|base|pulled)$")
"""The half of a connector that runs in the ingress uses what the ingress has; `base` names its types."""


def layer(module):
    _, *parts = module.split(".")
    if not parts:
        return "facade"
    if parts[0] == "engine":
        package = ".".join(parts[:2])
        return package if package in MAY_IMPORT else "engine.transport" if parts[-1] in WITH_TRANSPORT else "engine"
    return parts[0] if parts[0] in MAY_IMPORT else "core"


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


MODULES = sorted(path for path in PACKAGE.rglob("*.py") if name_of(path) not in FACADE)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_imports_only_what_is_below_it(path):
    module = name_of(path)
    here = layer(module)
    allowed = MAY_IMPORT[here] | {here}
    if SOURCE_HALF.match(module):
        allowed |= {"ingress"}
    wrong = {each for each in imports_of(path) if layer(each) not in allowed | {"facade"}}
    assert not wrong, f"{module} ({here}) imports {wrong}"


def test_the_layers_have_no_cycle():
    reachable = {name: set(below) for name, below in MAY_IMPORT.items()}
    for _ in reachable:
        for below in reachable.values():
            below |= {deeper for each in below for deeper in reachable[each]}
    assert not [name for name, below in reachable.items() if name in below]
