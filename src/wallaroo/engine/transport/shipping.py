"""How the plan reaches the processes that run user code.

A parcel is a file (or bytes) with two parts: where the driver's modules come from, in JSON, and a pickle. That comes
first, because the pickle names classes and functions of the user's modules, which must be importable before it
is read.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import cloudpickle

from wallaroo.errors import WallarooError
from wallaroo.files import write_atomically
from wallaroo.precedence import prefer, preferred
from wallaroo.topology.model import Application

if TYPE_CHECKING:
    from wallaroo.engine.plan import Plan


def import_path() -> list[str]:
    """Return the folders that modules are imported from, as absolute paths."""
    return [os.path.abspath(entry or ".") for entry in sys.path]  # noqa: PTH100 - resolves no links


def pack(obj: Any) -> bytes:
    """Return `obj` as a parcel."""
    header = json.dumps({"path": import_path(), "preferred": preferred()}).encode()
    body: bytes = cloudpickle.dumps(obj)
    return header + b"\n" + body


def unpack(parcel: bytes) -> Any:
    """Return the object in a parcel, after making its modules importable here."""
    header, _, body = parcel.partition(b"\n")
    _make_importable(header)
    return pickle.loads(body)


def _make_importable(header: bytes) -> None:
    """Add the folders of the path that are missing here, each in front of the one that it stands in front of there."""
    there = json.loads(header)
    place = len(sys.path)
    for entry in reversed(there["path"]):
        if entry in sys.path:
            place = sys.path.index(entry)
        else:
            sys.path.insert(place, entry)
    prefer(there.get("preferred", ()))  # An earlier release has none.


def make_importable(parcel: Path) -> None:
    """Make the modules importable here that were importable where the parcel was made."""
    with parcel.open("rb") as file:
        _make_importable(file.readline())


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
        try:
            parcel = pack(plan)
        except Exception as error:
            raise WallarooError(_why_not(plan, error)) from error
        write_atomically(path, parcel)
        return cls(str(path), hashlib.sha256(parcel).hexdigest())

    def with_parcel(self) -> PlanRef:
        """Return a reference that brings the plan along."""
        return replace(self, parcel=Path(self.path).read_bytes())

    def load(self) -> Plan:
        """Return the plan."""
        return _load_plan(self)


@lru_cache(maxsize=2)
def _load_plan(ref: PlanRef) -> Plan:
    # It is meant for this process: programs that user code starts find what is beside them, as ever.
    os.environ.pop("PYTHONSAFEPATH", None)
    parcel = ref.parcel or Path(ref.path).read_bytes()
    if hashlib.sha256(parcel).hexdigest() != ref.digest:
        raise WallarooError(f"{ref.path} is not the plan of this run: another run has overwritten it.")
    plan: Plan = unpack(parcel)
    return plan


def picklable_mistakes(application: Application) -> Iterator[str]:
    """Yield a sentence for each part of the application that cannot be sent to the workers."""
    named = False
    for pipeline in application.pipelines:
        parts: list[tuple[str, Any]] = [("the decoder", pipeline.source)]
        parts += [(f"step {step.name!r}", step) for step in pipeline.steps]
        parts += [("an encoder", sink) for sink in pipeline.sinks]
        for label, part in parts:
            if error := _pickling_error(part):
                named = True
                way_out = "Create what cannot be pickled (a lock, a file, a connection) when it is first used"
                if label.startswith("step"):
                    way_out += ", or pass the class instead of an instance, so that each worker makes its own"
                yield f"pipeline {pipeline.name!r}: {label} cannot be sent to the workers ({error}). {way_out}"
    # What was declared travels too, also where it is no part: the builder of a state that another step has made.
    if not named and (error := _pickling_error(application)):
        yield f"the application cannot be sent to the workers ({error})"


def _pickling_error(thing: Any) -> Exception | None:
    try:
        cloudpickle.dumps(thing)
    except Exception as error:  # noqa: BLE001 - whatever a user's object raises when pickled
        return error
    return None


def _why_not(plan: Plan, error: Exception) -> str:
    """Name the parts of the plan that cannot be pickled."""
    mistakes = list(picklable_mistakes(plan.application))
    if not mistakes:
        return f"The application cannot be sent to the workers: {error}"
    return "\n".join(f"{mistake[0].upper()}{mistake[1:]}." for mistake in mistakes)


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
