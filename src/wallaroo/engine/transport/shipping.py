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
from pathlib import Path
from types import ModuleType
from typing import Any

from wallaroo.engine.plan import Layout, Plan
from wallaroo.errors import WallarooError
from wallaroo.files import write_atomically
from wallaroo.imports import import_path, make_importable
from wallaroo.program import build

_NOT_PLAIN = {"application", "layout", "serialize", "deserialize", "program"}
"""What of a plan is made anew in each process, or is more than plain data."""


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


def bundle_modules(target: Path) -> Path | None:
    """Zip the modules that were imported from source folders, for workers on machines that do not have these folders.

    Installed packages are left out: every machine of a cluster has its own.
    """
    roots = [Path(entry) for entry in import_path() if _is_source_folder(entry)]
    files: dict[str, Path] = {}
    for module in list(sys.modules.values()):
        source = _source_file(module)
        root = None if source is None else _root_of(module.__name__, source)
        if source is None or root not in roots:
            continue
        relative = source.relative_to(root)
        if len(relative.parts) > 1:
            package = root / relative.parts[0]
            files.update({str(path.relative_to(root)): path for path in package.rglob("*.py")})
        else:
            files[str(relative)] = source
    if not files:
        return None
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in sorted(files.items()):
            archive.write(path, name)
    return target


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
