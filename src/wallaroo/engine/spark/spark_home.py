"""The folder that Spark takes as its home: the installed package's programs, without its zipped copy of PySpark.

Spark puts `python/lib/pyspark.zip` of its home in front of every Python process it starts. Modules in that file are
compiled anew by each process, close to a second of work, and half a dozen processes start one after the other. Without
it they find the very same modules where they were installed, compiled already.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from wallaroo.engine.directory.plain_names import is_plain
from wallaroo.engine.directory.run_folder import temporary_folder, users_folder

_PARTS = ("bin", "jars")


def cache_folder() -> Path:
    """Return where things are kept that can be made again at any time.

    The JVM that uses them checks their paths against those of the run before, so a link for the run would not do.
    """
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wallaroo"
    return folder if is_plain(folder) else users_folder(temporary_folder()) / ".cache"


def spark_home(installed: Path, cache: Path | None = None) -> Path:
    """Return the home for the Spark of the package in the folder `installed`."""
    identity = hashlib.sha256(str(installed).encode()).hexdigest()[:16]
    home = (cache or cache_folder()) / f"spark-home-{identity}"
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        for part in _PARTS:
            with suppress(FileExistsError):  # From an earlier run, or by one that starts at the same time.
                (home / part).symlink_to(installed / part)
    except OSError:
        return installed  # Without a place for it one starts as slowly as before.
    return home
