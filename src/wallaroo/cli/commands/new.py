"""`wallaroo new`: writes the folder of a working application with its test, as a starting point."""

from __future__ import annotations

import keyword
import os
import re
import sys
from importlib.machinery import PathFinder
from importlib.resources import files
from pathlib import Path
from string import Template

import click

from wallaroo.cli.screen import plain_errors
from wallaroo.errors import WallarooError

_FILES = {
    "$name.py": "program.py.template",
    "test_$name.py": "test_program.py.template",
    "README.md": "README.md.template",
    ".gitignore": "gitignore.template",
}


@click.command()
@click.argument("name", metavar="NAME")
def command(*, name: str) -> None:
    """Create the folder NAME with a small application, its test and a README that says how to run it.

    NAME is also the name of the module, so it consists of letters, digits and underscores. A folder that is not empty
    is refused, and so is the name of an existing module.

    \b
    wallaroo new my_application
    cd my_application
    python -m pytest
    wallaroo check my_application
    """  # noqa: D301 - click wants the real character.
    with plain_errors():
        require_module_name(name)
        written = write_project(Path(name), name)
    click.secho(f"{name}/", bold=True)
    for path, what in zip(written, ("the application", "its test", "how to run it", ""), strict=True):
        click.echo(f"  {path.name:<{len(name) + 10}}{what}".rstrip())
    check = f"wallaroo check {name}"
    click.echo(
        f"\nNext:\n  cd {name}"
        f"\n  {'python -m pytest':<{len(check)}}  run the test, without Spark"
        f"\n  {check}  draw the application"
        "\nREADME.md explains how to run it."
    )


def require_module_name(name: str, command: str = "wallaroo new") -> None:
    """Refuse a name that is not valid for a module, or that would hide another one; `command` was given it.

    >>> require_module_name("word_count")
    >>> require_module_name("word-count")
    Traceback (most recent call last):
    wallaroo.errors.WallarooError: 'word-count' cannot be the name of a module. Write: wallaroo new word_count
    >>> require_module_name("json")
    Traceback (most recent call last):
    wallaroo.errors.WallarooError: There is a module 'json' already, which ... Write: wallaroo new my_json
    """
    if not name.isidentifier() or keyword.iskeyword(name):
        raise WallarooError(f"{name!r} cannot be the name of a module. Write: {command} {_suggestion(name)}")
    if _hides_a_module(name):
        raise WallarooError(f"There is a module {name!r} already, which yours would hide. Write: {command} my_{name}")


def _suggestion(name: str) -> str:
    """Return a valid name as close as possible to the given one.

    >>> _suggestion("projects/word count"), _suggestion("2nd try"), _suggestion("class"), _suggestion("?")
    ('word_count', 'my_2nd_try', 'my_class', 'my_application')
    """
    last = re.sub(r"\W+", "_", name.rstrip("/").rpartition("/")[2]).strip("_").lower()
    return last if last.isidentifier() and not keyword.iskeyword(last) else f"my_{last or 'application'}"


def _hides_a_module(name: str) -> bool:
    if name in sys.stdlib_module_names:
        return True
    here = os.path.realpath(".")
    spec = PathFinder.find_spec(name, [entry for entry in sys.path if os.path.realpath(entry or ".") != here])
    # A spec without an origin is just a folder that happens to have this name.
    return spec is not None and spec.origin is not None


def write_project(folder: Path, name: str) -> list[Path]:
    """Write the files of a new project and return them; a folder that is not empty is refused."""
    if folder.exists() and not folder.is_dir():
        raise WallarooError(f"{folder} is a file. Choose another name, or move it away.")
    if folder.is_dir() and any(folder.iterdir()):
        raise WallarooError(f"The folder {folder} is not empty. Choose another name, or move it away.")
    folder.mkdir(exist_ok=True)
    templates = files("wallaroo.cli") / "templates"
    words = {"name": name, "title": name.replace("_", " ").strip().title()}
    written = []
    for target, template in _FILES.items():
        path = folder / Template(target).substitute(words)
        text = (templates / template).read_text(encoding="utf-8")
        path.write_text(Template(text).substitute(words), encoding="utf-8")
        written.append(path)
    return written
