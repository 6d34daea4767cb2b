"""How the plan reaches the processes that run user code.

It is a file of JSON: how the application is built, which each process does by itself, and what else
driver and workers have to agree on.
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
from wallaroo.program import build, import_path, make_importable

_NOT_PLAIN = {"application", "layout", "serialize", "deserialize", "program"}
"""What of a plan is made anew in each process, or is more than plain data."""

_MOST_FILES = 1000
_MOST_BYTES = 16 << 20
_NAMED = 5


def make_importable_as_in(plan: Path) -> None:
    """Make the modules importable here that were importable where the plan was written."""
    make_importable(json.loads(plan.read_bytes()))


@dataclass(frozen=True)
class PlanRef:
    """A plan in a file of the application's own directory, read once by each worker process."""

    path: str
    digest: str
    parcel: bytes = field(default=b"", repr=False, compare=False)
    """What is in the file, for workers on machines that do not have it."""

    @classmethod
    def write(cls, plan: Plan, path: Path) -> PlanRef:
        """Write `plan` to `path`."""
        parcel = _packed(plan)
        write_atomically(path, parcel)
        return cls(str(path), hashlib.sha256(parcel).hexdigest())

    def with_parcel(self) -> PlanRef:
        """Return a reference that brings the plan along."""
        return replace(self, parcel=Path(self.path).read_bytes())

    def load(self) -> Plan:
        """Return the plan; the application in it is built here, the first time."""
        return _load_plan(self)


def _packed(plan: Plan) -> bytes:
    assert plan.program is not None
    plain = {each.name: getattr(plan, each.name) for each in fields(plan) if each.init and each.name not in _NOT_PLAIN}
    layout = plan.layout.as_json()
    return json.dumps({**plan.program.instructions(plan.application), "layout": layout, "plan": plain}).encode()


@lru_cache(maxsize=2)
def _load_plan(ref: PlanRef) -> Plan:
    # It is meant for this process: programs that user code starts find what is beside them, as ever.
    os.environ.pop("PYTHONSAFEPATH", None)
    parcel = ref.parcel or Path(ref.path).read_bytes()
    if hashlib.sha256(parcel).hexdigest() != ref.digest:
        raise WallarooError(f"{ref.path} is not the plan of this run: another run has overwritten it.")
    told = json.loads(parcel)
    application, module = build(told, "a worker")
    return Plan(application, Layout.from_json(told["layout"]), *own_serializers(module), **told["plan"])


def own_serializers(module: ModuleType | None) -> tuple[Any, Any]:
    """Return the application's own `serialize` and `deserialize`, where its module defines them."""
    own = [getattr(module, name, None) for name in ("serialize", "deserialize")]
    defined = all(callable(f) and not getattr(f, "__module__", "").startswith("wallaroo.") for f in own)
    return (own[0], own[1]) if defined else (None, None)


def bundle_modules(target: Path, program: str, notice: Notice) -> Path | None:
    """Zip the modules that come from source folders, for workers on machines that do not have these folders.

    These are the modules that have been imported, and those beside the module `program`, as a step may import one only
    when it runs. Installed packages are left out: every machine of a cluster has its own.
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
    """Return the files of a module, or of a package with all that is in it, by their names in the bundle."""
    found = path.rglob("*.py") if path.is_dir() else [path]
    # Editors leave links that lead nowhere.
    return {str(each.relative_to(path.parent)): each for each in found if each.is_file() and os.access(each, os.R_OK)}


def _add_unimported(files: dict[str, Path], program: ModuleType, roots: list[Path], notice: Notice) -> None:
    """Add what is beside the program and was not imported so far, unless that is more than belongs to a program."""
    source = _source_file(program)
    root = None if source is None else _root_of(program.__name__, source)
    if root not in roots:
        return
    left_out = []
    number, room = _MOST_FILES, _MOST_BYTES
    for path in sorted(root.iterdir()):
        # What is installed under the same name is not to be hidden there, as it is not here.
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
            f"Not sent to the workers: {', '.join(left_out[:_NAMED])}{' and others' * (len(left_out) > _NAMED)}, for "
            f"there is too much beside {program.__name__}. Import what steps need at the beginning of the program."
        )


def _is_imported_from(path: Path) -> bool:
    """Tell whether a module or package would be imported from here, and not from elsewhere, by its name."""
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
    # What was installed for one user only lies elsewhere.
    inside = inside or not {"site-packages", "dist-packages"}.isdisjoint(Path(entry).parts)
    return not inside and Path(entry).is_dir()


def _source_file(module: ModuleType) -> Path | None:
    name = getattr(module, "__file__", None)
    if not name or not str(name).endswith(".py") or module.__name__.partition(".")[0] == "wallaroo":
        return None
    return Path(os.path.abspath(name))  # noqa: PTH100


def _root_of(module: str, source: Path) -> Path | None:
    """Return the folder from which `module` was imported: folders of the import path may lie inside each other."""
    names = module.split(".") + ["__init__"] * (source.stem == "__init__")
    folder = source.with_suffix("")
    return folder.parents[len(names) - 1] if list(folder.parts[-len(names) :]) == names else None
