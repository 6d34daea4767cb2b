"""The plan file, for the processes that run user code.

It is JSON: how to build the application, which each process does itself, and what else driver and workers have to agree
on.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import zipfile
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from wallaroo.engine.plan import Layout, Plan
from wallaroo.errors import WallarooError
from wallaroo.files import write_atomically
from wallaroo.notices import Notice
from wallaroo.program import apply_import_settings, build, import_path

_NOT_PLAIN = {"application", "layout", "serialize", "deserialize", "program"}
"""The fields of a plan that are rebuilt in each process, or are not plain data."""

_MAX_FILES = 1000
_MAX_BYTES = 16 << 20
_NAMED = 5


def apply_import_settings_of(plan: Path) -> None:
    """Make the modules importable here that were importable in the process that wrote the plan."""
    apply_import_settings(json.loads(plan.read_bytes()))


@dataclass(frozen=True)
class PlanRef:
    """A plan in a file in the application's directory, read once by each worker process."""

    path: str
    digest: str
    parcel: bytes = field(default=b"", repr=False, compare=False)
    """The contents of the file, for workers on machines that do not have it."""

    @classmethod
    def write(cls, plan: Plan, path: Path) -> PlanRef:
        """Write `plan` to `path`."""
        parcel = _packed(plan)
        write_atomically(path, parcel)
        return cls(str(path), hashlib.sha256(parcel).hexdigest())

    def with_parcel(self) -> PlanRef:
        """Return a reference that includes the plan."""
        return replace(self, parcel=Path(self.path).read_bytes())

    def load(self) -> Plan:
        """Return the plan; the first call builds its application."""
        return _load_plan(self)


def _packed(plan: Plan) -> bytes:
    assert plan.program is not None
    plain = {each.name: getattr(plan, each.name) for each in fields(plan) if each.init and each.name not in _NOT_PLAIN}
    layout = plan.layout.as_json()
    return json.dumps({**plan.program.instructions(plan.application), "layout": layout, "plan": plain}).encode()


@lru_cache(maxsize=2)
def _load_plan(ref: PlanRef) -> Plan:
    # It is meant for this process only: programs that user code starts import modules from their own folder, as usual.
    os.environ.pop("PYTHONSAFEPATH", None)
    parcel = ref.parcel or Path(ref.path).read_bytes()
    if hashlib.sha256(parcel).hexdigest() != ref.digest:
        raise WallarooError(f"{ref.path} is not the plan of this run: another run has overwritten it.")
    written = json.loads(parcel)
    application, module = build(written, "a worker")
    return Plan(application, Layout.from_json(written["layout"]), *own_serializers(module), **written["plan"])


def own_serializers(module: ModuleType | None) -> tuple[Any, Any]:
    """Return the application's own `serialize` and `deserialize`, if its module defines them."""
    own = [getattr(module, name, None) for name in ("serialize", "deserialize")]
    defined = all(callable(f) and not getattr(f, "__module__", "").startswith("wallaroo.") for f in own)
    return (own[0], own[1]) if defined else (None, None)


def bundle_modules(target: Path, program: str, notice: Notice) -> Path | None:
    """Zip the modules from source folders, for workers on machines that do not have these folders.

    These are the modules that have been imported, and those in the folder of the module `program`, as a step may import
    a module only when it runs. Installed packages are left out: every machine of a cluster has its own.
    """
    roots = [Path(entry) for entry in import_path() if _is_source_folder(entry)]
    files: dict[str, Path] = {}
    for module in list(sys.modules.values()):
        source = _source_file(module)
        root = None if source is None else _root_of(module.__name__, source)
        if source is None or root not in roots:
            continue
        relative = source.relative_to(root)
        files |= _files_of(root / relative.parts[0])
    if not files:
        return None
    _add_unimported(files, sys.modules[program], roots, notice)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in sorted(files.items()):
            archive.write(path, name)
    return target


def _files_of(path: Path) -> dict[str, Path]:
    """Return the files of a module, or of a package with all its contents, by their names in the bundle."""
    found = path.rglob("*.py") if path.is_dir() else [path]
    # Editors create dangling symbolic links.
    return {str(each.relative_to(path.parent)): each for each in found if each.is_file() and os.access(each, os.R_OK)}


def _add_unimported(files: dict[str, Path], program: ModuleType, roots: list[Path], notice: Notice) -> None:
    """Add modules in the program's folder that have not been imported, up to a limit of files and bytes."""
    source = _source_file(program)
    root = None if source is None else _root_of(program.__name__, source)
    if root not in roots:
        return
    left_out = []
    number, room = _MAX_FILES, _MAX_BYTES
    for path in sorted(root.iterdir()):
        # It must not shadow an installed module there that it does not shadow here.
        if path.name in files or not _is_imported_from(path):
            continue
        more = {name: file for name, file in _files_of(path).items() if name not in files}
        size = sum(file.stat().st_size for file in more.values())
        if size <= room and len(more) <= number:
            files |= more
            number, room = number - len(more), room - size
        else:
            left_out.append(path.stem)
    if left_out:
        notice(
            f"Not sent to the workers: {', '.join(left_out[:_NAMED])}{' and others' * (len(left_out) > _NAMED)}, "
            f"because there is too much beside {program.__name__}. Import what steps need at the beginning of the "
            "program."
        )


def _is_imported_from(path: Path) -> bool:
    """Return whether importing the name of this module or package would import this file."""
    source = path / "__init__.py" if path.is_dir() else path
    if source.suffix != ".py" or not path.stem.isidentifier() or not source.is_file():
        return False
    try:
        spec = find_spec(path.stem)
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin is not None and os.path.abspath(spec.origin) == str(source)  # noqa: PTH100


def _is_source_folder(entry: str) -> bool:
    installed = {os.path.abspath(prefix) for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix)}  # noqa: PTH100
    inside = any(entry == prefix or entry.startswith(prefix + os.sep) for prefix in installed)
    # Per-user installations are in another folder.
    inside = inside or not {"site-packages", "dist-packages"}.isdisjoint(Path(entry).parts)
    return not inside and Path(entry).is_dir()


def _source_file(module: ModuleType) -> Path | None:
    name = getattr(module, "__file__", None)
    if not name or not str(name).endswith(".py") or module.__name__.partition(".")[0] == "wallaroo":
        return None
    return Path(os.path.abspath(name))  # noqa: PTH100


def _root_of(module: str, source: Path) -> Path | None:
    """Return the folder from which `module` was imported: folders of the import path may be nested."""
    names = module.split(".") + ["__init__"] * (source.stem == "__init__")
    folder = source.with_suffix("")
    return folder.parents[len(names) - 1] if list(folder.parts[-len(names) :]) == names else None
