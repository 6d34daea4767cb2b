"""The user's program: every process that runs its code imports its module and builds the application itself.

So whatever `application_setup` sets, opens or trains exists in every process, and nothing has to be serialized. What
must be the same everywhere is compared with what machida has built.
"""

from __future__ import annotations

import importlib
import operator
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, NamedTuple

from wallaroo.errors import ApplicationError, users_traceback
from wallaroo.setup_arguments import call_setup
from wallaroo.topology.fingerprint import describe, differences
from wallaroo.topology.model import Application

Setup = Callable[[list[str]], Any]
Instructions = Mapping[str, Any]
"""How another process builds the application; can be written as JSON."""

_SAME_EACH_TIME = (
    "it must give the same each time. Every process of the run calls it, so what it builds must not depend on the "
    "time, on chance, on the process, or on a file that changes"
)


_being_imported: list[str] = []


@contextmanager
def _noted_import(module: str) -> Iterator[None]:
    _being_imported.append(module)
    try:
        yield
    finally:
        _being_imported.pop()


def refuse_to_run_while_imported() -> None:
    """Refuse to run an application from inside a program that a process imports only to build it."""
    if _being_imported:
        raise ApplicationError(
            f"{_being_imported[-1]} calls wallaroo.run when it is imported, which every process of the run does. Put "
            'the call below `if __name__ == "__main__":`.'
        )


@dataclass(frozen=True)
class Program:
    """A function that builds an application, identified by module and name, and its arguments."""

    module: str
    function: str
    arguments: tuple[str, ...]
    argv: tuple[str, ...] = field(default_factory=lambda: tuple(sys.argv))
    """The `sys.argv` for programs that read it."""

    def imported(self) -> ModuleType:
        """Return the module; imports it if necessary."""
        with _noted_import(self.module):
            return importlib.import_module(self.module)

    def setup(self) -> Setup:
        """Return the function."""
        function: Setup = operator.attrgetter(self.function)(self.imported())
        return function

    def home_module(self) -> ModuleType | None:
        """Return the module that defines the function, which may differ from the one it was looked up in."""
        return sys.modules.get(getattr(self.setup(), "__module__", self.module))

    def instructions(self, application: Application) -> Instructions:
        """Return what another process needs to build the same application."""
        return {
            **import_settings(),
            "module": self.module,
            "function": self.function,
            "arguments": self.arguments,
            "argv": self.argv,
            "topology": describe(application),
        }


def require_application(result: Any) -> Application:
    """Return what an `application_setup` has returned, if it is an application.

    Raises:
        ApplicationError: It is not.

    >>> require_application(None)
    Traceback (most recent call last):
    wallaroo.errors.ApplicationError: application_setup returned NoneType instead of an application: end it with ...
    """
    if not isinstance(result, Application):
        raise ApplicationError(
            f"application_setup returned {type(result).__name__} instead of an application: end it with "
            "`return ab.build()`, or, for a pipeline, with `return wallaroo.build_application(name, pipeline)`."
        )
    return result


class Built(NamedTuple):
    """An application, and the module whose function built it."""

    application: Application
    module: ModuleType | None


def build(instructions: Instructions, process: str) -> Built:
    """Build an application in this process, which error messages call `process`.

    Raises:
        ApplicationError: It cannot be built, or it differs from the one that machida has built.
    """
    apply_import_settings(instructions)
    sys.argv[:] = instructions["argv"]
    program = Program(instructions["module"], instructions["function"], tuple(instructions["arguments"]))
    name = program.function
    try:
        setup = program.setup()
    except (Exception, SystemExit) as error:
        raise ApplicationError(_failed(f"Importing {program.module}", process, error)) from error
    try:
        application = call_setup(setup, program.arguments)
    except (Exception, SystemExit) as error:
        raise ApplicationError(_failed(name, process, error)) from error
    if not isinstance(application, Application):
        raise ApplicationError(
            f"In {process}, {name} returned {type(application).__name__}, and an application in machida: "
            f"{_SAME_EACH_TIME}."
        )
    if difference := next(differences(describe(application), instructions["topology"]), None):
        raise ApplicationError(f"In {process}, {name} {difference}: {_SAME_EACH_TIME}.")
    return Built(application, program.home_module())


def _failed(what: str, process: str, error: BaseException) -> str:
    """Return the message for something that failed here and worked in machida."""
    return (
        f"{what} failed in {process}, though not in machida:\n{users_traceback(error)}\n"
        "Every process of the run imports the program and calls its application_setup, so that has to work several "
        f"times, and at the same time{_where(error)}."
    )


def _where(error: BaseException) -> str:
    """Return what the current folder is, where that may be the cause: it differs on other machines."""
    if not isinstance(error, FileNotFoundError):
        return ""
    try:
        return f"; the current folder there is {os.getcwd()}"  # noqa: PTH109 - there are no links to resolve
    except FileNotFoundError:
        return "; there is no current folder there"


def import_path() -> list[str]:
    """Return the folders that modules are imported from, as absolute paths."""
    return [os.path.abspath(entry or ".") for entry in sys.path]  # noqa: PTH100 - must not resolve links


def import_settings() -> dict[str, Any]:
    """Return where this process imports modules from; can be written as JSON."""
    return {"path": import_path(), "preferred": preferred()}


def apply_import_settings(settings: Mapping[str, Any]) -> None:
    """Make the modules importable here that are importable in the process that `settings` come from.

    Missing folders are added to `sys.path` in the same relative order. Folders that this machine does not have do no
    harm.
    """
    place = len(sys.path)
    for entry in reversed(settings["path"]):
        if entry in sys.path:
            place = sys.path.index(entry)
        else:
            sys.path.insert(place, entry)
    prefer(settings["preferred"])


@dataclass(frozen=True)
class _Preferred(MetaPathFinder):
    """Finds one module or package in one folder."""

    name: str
    folder: str

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is not None or fullname != self.name:
            return None
        spec = PathFinder.find_spec(fullname, [self.folder], target)
        # A namespace package may be any folder that happens to have this name: leave it to the module path.
        return spec if spec is not None and spec.origin is not None else None


def prefer(modules: Iterable[Sequence[str]]) -> None:
    """Import modules, each given as a top-level name and its folder, from these folders before all others."""
    for name, folder in modules:
        finder = _Preferred(name, folder)
        if finder not in sys.meta_path:
            sys.meta_path.insert(0, finder)


def preferred() -> list[tuple[str, str]]:
    """Return the modules that are preferred in this process."""
    return [(finder.name, finder.folder) for finder in sys.meta_path if isinstance(finder, _Preferred)]
