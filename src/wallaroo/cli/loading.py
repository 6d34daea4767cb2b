"""Loads the application: imports its module, calls its `application_setup`, and reports what is wrong."""

from __future__ import annotations

import importlib
import operator
import os
import pickle
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from wallaroo import python2_hints
from wallaroo.cli.screen import say
from wallaroo.engine.transport.plan_file import own_serializers
from wallaroo.errors import ApplicationError, WallarooError, WallarooParameterError, users_traceback
from wallaroo.introspection import label
from wallaroo.program import Program, Setup, prefer, require_application
from wallaroo.setup_arguments import call_setup
from wallaroo.topology.assemble import mistakes_text
from wallaroo.topology.model import Application, State, StateComputation


def import_application(name: str) -> ModuleType:
    """Import an application's module from the current folder or PYTHONPATH."""
    if os.sep in name or name.startswith("."):
        raise ApplicationError(_not_a_name(Path(name)))
    make_findable(name)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise ApplicationError(_not_found(name)) from error
        raise ApplicationError(f"Importing {name} failed:\n{users_traceback(error)}") from error
    except SyntaxError as error:
        raise ApplicationError(_unreadable(error)) from error
    except SystemExit as error:
        raise ApplicationError(
            f"Importing {name} ended the program: it calls sys.exit at its top level. Put what is only for running it "
            'as a script below `if __name__ == "__main__":`.'
        ) from error
    except Exception as error:
        raise ApplicationError(f"Importing {name} failed:\n{users_traceback(error)}") from error
    finally:
        tell_hidden()


def _unreadable(error: SyntaxError) -> str:
    place = f"{error.filename}, line {error.lineno}"
    older = python2_hints.syntax_hint(error)
    return f"{place}: {error.msg}." if older is None else f"{place} is Python 2: {older}."


def _not_a_name(path: Path) -> str:
    return (
        f"{path} is a path, and machida takes the name of a module: write --application-module {path.stem}, in the "
        f"folder {path.parent.absolute()} or with that folder in PYTHONPATH."
    )


def _not_found(name: str) -> str:
    text = f"No module named {name!r} in the current folder or PYTHONPATH."
    if name.endswith(".py"):
        return f"{text} Leave out the ending: {name.removesuffix('.py')}"
    here = sorted(path.stem for path in Path.cwd().glob("*.py"))
    return f"{text} Modules here: {', '.join(here[:10])}" if here else f"{text} There are no modules here."


def setup_function(module: ModuleType) -> Setup:
    """Return the module's `application_setup`."""
    setup = getattr(module, "application_setup", None)
    if not callable(setup):
        raise ApplicationError(
            f"The module {module.__name__!r} ({module.__file__}) has no function application_setup(args). "
            "It is what machida calls to build the application."
        )
    function: Setup = setup
    return function


def build(setup: Setup, arguments: list[str]) -> Application:
    """Return the application that `setup` builds."""
    try:
        return require_application(call_setup(setup, arguments))
    except WallarooError:
        raise
    except SyntaxError as error:
        raise ApplicationError(_unreadable(error)) from error
    except Exception as error:
        raise ApplicationError(f"application_setup failed:\n{users_traceback(error)}") from error


def refuse_unsavable_states(application: Application, setup: Setup) -> None:
    """Refuse an application with a state that could not be created or saved at run time.

    This creates state objects, and so runs user code, which may be slow: it is done once, before an application is
    started or when it is only checked, and not in every process that builds it.

    Raises:
        WallarooParameterError: There are such states; the text lists all of them.
    """
    serialize, _ = own_serializers(sys.modules.get(getattr(setup, "__module__", "")))
    if mistakes := list(unsavable_states(application, own_serialize=serialize is not None)):
        raise WallarooParameterError(mistakes_text(application.name, mistakes))


def unsavable_states(application: Application, *, own_serialize: bool = False) -> Iterator[str]:
    """Create an object of each state, try to save it, and yield a sentence for each that cannot be used.

    Args:
        application: The application.
        own_serialize: Whether the application has its own serialization function. It is not tried: it may expect states
            that have processed messages.

    Yields:
        What is wrong, and what to write instead.
    """
    steps = (step for pipeline in application.pipelines for step in pipeline.steps)
    states = {step.state.name: step.state for step in steps if isinstance(step, StateComputation)}
    for state in states.values():
        yield from _state_mistakes(state, own_serialize=own_serialize)


def _state_mistakes(state: State, *, own_serialize: bool) -> Iterator[str]:
    try:
        fresh = state.make()()
    except Exception as error:  # noqa: BLE001 - the user's code may raise anything, and it is reported
        yield f"the state {state.name!r} cannot be made: {type(error).__name__}: {error}"
        return
    if fresh is None:
        yield f"the state {state.name!r} is made as None: what makes it must return an object"
        return
    if own_serialize:
        return
    try:
        pickle.dumps(fresh, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001 - a user's object may raise anything when pickled
        yield (
            f"the state {state.name!r} cannot be saved ({error}). Keep in it only what can be pickled: no lambda "
            "(write a function of the module instead), no lock, no file, no connection"
        )


def program_of(setup: Setup, arguments: list[str]) -> Program:
    """Return the program that `setup` belongs to, with names that every process can import.

    A script that is run directly is called `__main__`, but only in this process. So it is imported again under its own
    name, and that copy is run; classes and states then have the same names however it was started.
    """
    module, name = getattr(setup, "__module__", ""), getattr(setup, "__qualname__", "")
    if _named(sys.modules.get(module), name) != setup:
        raise ApplicationError(
            f"wallaroo.run needs a function that every process of the run can import, and {label(setup)} is not found "
            f"by its name in the module {module!r}. Define application_setup(args) at the top level of a file."
        )
    if module != "__main__":
        return Program(module, name, tuple(arguments))
    program = Program(_name_of_script(), name, tuple(arguments))
    if not callable(_named(program.imported(), name)):
        raise ApplicationError(
            f"{name} is only defined where {program.module} is run as a script. Every process of the run imports it, "
            'so put the function in front of `if __name__ == "__main__":`.'
        )
    return program


def _named(module: ModuleType | None, name: str) -> Any:
    try:
        return operator.attrgetter(name)(module)
    except AttributeError:
        return None


def _name_of_script() -> str:
    """Return the name under which the running script can be imported."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    file = getattr(main, "__file__", None)
    if spec is not None and spec.name != "__main__":
        return str(spec.name)
    if file is None:
        raise ApplicationError(
            "wallaroo.run needs application_setup in a file, which workers can import; it was defined interactively."
        )
    name = Path(file).stem
    if name == "__main__":
        raise ApplicationError(
            f"The other processes of the run cannot import {file} under its name. Put application_setup into a file of "
            "another name, and import it from there."
        )
    add_folder(str(Path(file).resolve().parent), name)
    return name


def make_findable(application: str) -> None:
    """Add the current folder to the module path if the application's module is there."""
    here = _current_folder()
    _remove_implicit_current_folder(here)
    name = application.partition(".")[0]
    if here not in sys.path and _is_in(name, here):
        add_folder(here, name)


def _current_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - the import path holds strings
    except FileNotFoundError as error:
        raise ApplicationError(
            "The current folder no longer exists: it was deleted, or created again. Change to one that exists "
            "(for a new "
            'one of the same name, write `cd "$PWD"`), and start again.'
        ) from error


def add_folder(folder: str, name: str) -> None:
    """Append an application's folder to the module path, so that it does not hide installed modules.

    Only the application itself takes precedence over other modules of its name.
    """
    if folder not in sys.path:
        sys.path.append(folder)
        prefer([(name, folder)])


def _remove_implicit_current_folder(here: str) -> None:
    """Remove the current folder from the path if it is there only because of `python -m` or an empty PYTHONPATH entry.

    `PYTHONPATH=$PYTHONPATH:/more` has an empty entry if the variable was empty, and Python interprets that as the
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
        os.environ["PYTHONPATH"] = os.pathsep.join(kept)  # For processes started later.
        if here in sys.path:
            sys.path.remove(here)


def _is_in(name: str, folder: str) -> bool:
    """Return whether a module, or a package with code of its own, is in a folder of the path."""
    spec = PathFinder.find_spec(name, [folder])
    return spec is not None and (spec.origin is not None or not _is_anywhere(name))


def _is_anywhere(name: str) -> bool:
    spec = PathFinder.find_spec(name)
    return spec is not None and spec.origin is not None


def tell_hidden() -> None:
    """Report modules in the current folder that are hidden by imported modules of the same name."""
    here = Path.cwd()
    if str(here) not in sys.path:
        return
    for path in sorted([*here.glob("*.py"), *(package.parent for package in here.glob("*/__init__.py"))]):
        found = sys.modules.get(path.stem)
        file = getattr(found, "__file__", None)
        # A deeper folder may be the virtual environment, or any other folder on the path.
        if found is not None and (file is None or Path(file).parent not in {here, here / path.stem}):
            say(
                f"{path.name} in this folder is not what `import {path.stem}` finds: that is "
                f"{file or 'a part of Python itself'}. Rename yours if the application needs it."
            )
