"""Modules that are taken from the application's folder though others have their names.

That folder stays last on the module path, so that nothing in it hides what is installed. Only the application itself,
which somebody has asked for by name, comes from it before anything else; the other processes are told of it together
with the module path.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


@dataclass(frozen=True)
class _Preferred(MetaPathFinder):
    """Finds one module, or package, in one folder."""

    name: str
    folder: str

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is not None or fullname != self.name:
            return None
        spec = PathFinder.find_spec(fullname, [self.folder], target)
        # A folder without code of its own may be any that happens to have this name: the module path decides.
        return spec if spec is not None and spec.origin is not None else None


def prefer(modules: Iterable[Sequence[str]]) -> None:
    """Take modules, each a top-level name and its folder, from these folders before all others."""
    for name, folder in modules:
        finder = _Preferred(name, folder)
        if finder not in sys.meta_path:
            sys.meta_path.insert(0, finder)


def preferred() -> list[tuple[str, str]]:
    """Return the modules that are preferred in this process."""
    return [(finder.name, finder.folder) for finder in sys.meta_path if isinstance(finder, _Preferred)]
