"""What `import wallaroo` brings, and what it leaves out."""

import ast
import json
import re
from pathlib import Path

from tests.processes import run_python

import wallaroo


def test_importing_wallaroo_does_not_import_spark_or_the_tools_around_it():
    left_out = ("pyspark", "pyarrow", "click", "rich", "confluent_kafka")
    program = f"import json, sys, wallaroo; print(json.dumps([name for name in {left_out} if name in sys.modules]))"
    assert json.loads(run_python("-c", program).stdout) == []


def test_everything_that_is_imported_to_be_public_is_promised_in_order():
    imported = {
        alias.asname or alias.name
        for node in ast.parse(Path(wallaroo.__file__).read_text()).body
        if isinstance(node, ast.ImportFrom) and node.module != "__future__" and node.module.startswith("wallaroo")
        for alias in node.names
    }
    assert wallaroo.__all__ == sorted({*imported - {"class_of_decorated"}, "run"})


def test_the_version_is_the_newest_of_the_changelog():
    changelog = (Path(__file__).parents[1] / "CHANGELOG.md").read_text()
    assert re.search(r"^## \[(.*?)\]", changelog, re.MULTILINE)[1] == wallaroo.__version__
