"""Where things are: folders, and the Pythons and the Java that programs are run with."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import psutil

BENCHMARKS = Path(__file__).parents[1]
APPS = BENCHMARKS / "apps"
BASELINES = BENCHMARKS / "baselines"
RESULTS = BENCHMARKS / "results"
SOURCES = BENCHMARKS.parent / "src"
BUILD = BENCHMARKS.parent / "build"
INPUTS = BUILD / "bench-inputs"

_VENV = BUILD / "bench-venv"
_REQUIREMENTS = BENCHMARKS / "requirements.txt"


def machida_command() -> list[str]:
    """Return how to start machida: as it was installed, or, where it was not, straight from the sources."""
    installed = Path(sys.executable).with_name("machida")
    if installed.exists():
        return [str(installed)]
    return [sys.executable, "-c", "from wallaroo.cli.machida import main; main()"]


def environment() -> dict[str, str]:
    """Return the environment of programs that use this very Wallaroo, and Spark."""
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    paths = os.pathsep.join([str(SOURCES), *filter(None, inherited)])
    return {**os.environ, "PYTHONPATH": paths, "JAVA_HOME": java_home(), "PYSPARK_PYTHON": sys.executable}


@cache
def java_home() -> str:
    """Return the Java that our engine would choose, so that all programs on Spark have the same."""
    sys.path.append(str(SOURCES))
    from wallaroo.engine.spark.java import java_home as find_java  # noqa: PLC0415 - needs the path above

    return find_java(BUILD)


@cache
def bench_tool(name: str) -> str | None:
    """Return a program of the benchmarks' own virtual environment, None where it cannot be installed.

    The environment is made when it is first needed, and again when the requirements have changed.
    """
    wanted = hashlib.sha256(_REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()
    mark = _VENV / "made-from"
    if not mark.exists() or mark.read_text() != wanted:
        venv.create(_VENV, with_pip=True, clear=True)
        command = [_VENV / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        installed = subprocess.run([*command, "-r", _REQUIREMENTS], capture_output=True, text=True, check=False)
        (_VENV / "pip.log").write_text(installed.stdout + installed.stderr)
        if installed.returncode == 0:
            mark.write_text(wanted)
    program = _VENV / "bin" / name
    return str(program) if mark.exists() and program.exists() else None


@contextmanager
def scratch() -> Iterator[Path]:
    """Make a folder on the disk that the project is on, for the time of a `with` block."""
    BUILD.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=BUILD))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def machine() -> dict[str, str | int]:
    """Describe the machine, for readers of the figures."""
    return {
        "cores": os.cpu_count() or 0,
        "memory in GB": round(psutil.virtual_memory().total / 1e9),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "java": _java_version(),
    }


def _java_version() -> str:
    release = Path(java_home(), "release")
    lines = release.read_text().splitlines() if release.exists() else []
    return next((line.split('"')[1] for line in lines if line.startswith("JAVA_VERSION=")), "unknown")
