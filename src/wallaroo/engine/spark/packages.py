"""The packages that a run needs beside this one: missing or wrong ones are named before anything is imported."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path

from wallaroo.errors import SparkStartError

SPARK = "4.3"
"""The Spark that this release is made for: its streaming changes with every one."""

_NEEDED = ("pyspark", "py4j", "pyarrow", "pandas")


def check_packages() -> None:
    """Refuse an installation that cannot run an application."""
    for package in _NEEDED:
        if _place(package) is None:
            raise SparkStartError(
                f"The package {package} is not installed in this Python. Write: pip install --force-reinstall "
                "wallaroo-spark, which brings all that is needed."
            )
    if not _is_ours(found := _pyspark_version()):
        raise SparkStartError(
            f"pyspark {found} is installed, and this release needs {SPARK}. Write: pip install 'pyspark=={SPARK}.*'"
        )
    if home := os.environ.get("SPARK_HOME"):
        _check_spark_home(Path(home))


def _place(module: str) -> str | None:
    """Return the file of a module, None where there is no such module."""
    spec = find_spec(module)
    return None if spec is None else spec.origin


def _pyspark_version() -> str:
    # Not by importing it: one that is too old may not even be importable here.
    text = Path(_place("pyspark") or "").with_name("version.py").read_text()
    found = re.search(r"""^__version__.*?["']([^"']+)""", text, re.MULTILINE)
    return found[1] if found else "of an unknown version"


def _check_spark_home(home: Path) -> None:
    """Refuse another Spark than that of the package; pyspark would start whatever SPARK_HOME names."""
    way_out = "Unset SPARK_HOME: pyspark brings a Spark of its own."
    found = re.search(r"spark-core_[\d.]+-(\d[\w.]*)\.jar", " ".join(path.name for path in home.glob("jars/*.jar")))
    if found is None:
        raise SparkStartError(f"There is no Spark in {home}, which SPARK_HOME names. {way_out}")
    if not _is_ours(found[1]):
        raise SparkStartError(f"SPARK_HOME names Spark {found[1]}, and this release needs {SPARK}. {way_out}")


def _is_ours(version: str) -> bool:
    return version == SPARK or version.startswith(f"{SPARK}.")
