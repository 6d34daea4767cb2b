"""Where modules are looked for: the current folder only if the application is there, and behind what is installed.

The current folder may be anybody's: a `numpy.py` in it must not take the place of the real one. Where the application
itself is in it, its other modules are found there, but none that has the name of one of Python's own, or of a package
that Wallaroo or the application use. Only the application, under its own name, comes before those.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path

from wallaroo.cli.screen import say
from wallaroo.errors import ApplicationError
from wallaroo.precedence import prefer


def make_findable(application: str) -> None:
    """Put the current folder on the module path if the application's module is there."""
    here = _current_folder()
    _take_off_what_nobody_named(here)
    name = application.partition(".")[0]
    if here not in sys.path and _is_in(name, here):
        add_folder(here, name)


def _current_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - as it is put into the import path
    except FileNotFoundError as error:
        raise ApplicationError(
            "The current folder is not there any more: it was deleted, or made anew. Change to one that is (for a new "
            'one of the same name, write `cd "$PWD"`), and start again.'
        ) from error


def add_folder(folder: str, name: str) -> None:
    """Put an application's folder on the module path, last, so that nothing of what is installed is taken from it.

    Only the application itself comes before others of its name.
    """
    if folder not in sys.path:
        sys.path.append(folder)
        prefer([(name, folder)])


def _take_off_what_nobody_named(here: str) -> None:
    """Take the current folder off the path where only `python -m` or an empty entry in PYTHONPATH has put it there.

    `PYTHONPATH=$PYTHONPATH:/more` has an empty entry where the variable was empty, and Python takes that for the
    current folder.
    """
    variable = os.environ.get("PYTHONPATH")
    named = variable.split(os.pathsep) if variable else []
    kept = [entry for entry in named if entry]
    if any(os.path.abspath(entry) == here for entry in kept):  # noqa: PTH100 - resolves no links
        return
    put_first = sys.path[:1] in ([""], [here]) and not sys.flags.safe_path
    if put_first:
        del sys.path[0]
    if len(kept) < len(named):
        os.environ["PYTHONPATH"] = os.pathsep.join(kept)  # For the processes that are started later.
        if here in sys.path:
            sys.path.remove(here)


def _is_in(name: str, folder: str) -> bool:
    """Tell whether a module, or a package with code of its own, is in a folder of the path."""
    spec = PathFinder.find_spec(name, [folder])
    return spec is not None and (spec.origin is not None or not _is_anywhere(name))


def _is_anywhere(name: str) -> bool:
    spec = PathFinder.find_spec(name)
    return spec is not None and spec.origin is not None


def tell_hidden() -> None:
    """Say which modules in the current folder others of the same name have been imported for."""
    here = Path.cwd()
    if str(here) not in sys.path:
        return
    for path in sorted([*here.glob("*.py"), *(package.parent for package in here.glob("*/__init__.py"))]):
        found = sys.modules.get(path.stem)
        file = getattr(found, "__file__", None)
        # What lies deeper may be the virtual environment, or any other folder of the path.
        if found is not None and (file is None or Path(file).parent not in {here, here / path.stem}):
            say(
                f"{path.name} in this folder is not what `import {path.stem}` finds: that is "
                f"{file or 'a part of Python itself'}. Rename yours if the application needs it."
            )
