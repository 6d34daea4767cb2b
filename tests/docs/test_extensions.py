"""The programs on the page about extensions are ones that can be built, and agree with each other."""

import ast
import sys
import types
from pathlib import Path

from wallaroo import testing

from ..examples.readme import blocks  # noqa: TID252 - tests are not installed

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "extensions.md").read_text()


def test_the_programs_on_the_page(monkeypatch):
    streams, application, *scripts = blocks(PAGE, "python")
    module = types.ModuleType("streams")
    exec(streams, vars(module))
    monkeypatch.setitem(sys.modules, "streams", module)
    program = types.ModuleType("word_count")
    exec(application, vars(program))
    args = ["--text-stream", "127.0.0.1:7100", "--count-stream", "127.0.0.1:7200"]
    built = program.application_setup(args)
    assert testing.run(built, [b"Why why", "hello"]) == [("why", 1), ("why", 2), ("hello", 1)]
    assert testing.run(built, [b"why"], encoded=True) == [b"why => 1"]
    names = {each.name for script in scripts for each in ast.walk(ast.parse(script)) if isinstance(each, ast.alias)}
    assert names - {"sys"} <= set(vars(module))
