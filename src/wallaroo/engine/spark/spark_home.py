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

from wallaroo.engine.directory.run_folder import short_users_folder
from wallaroo.engine.directory.safe_paths import is_plain
from wallaroo.notices import Notice
from wallaroo.permissions import stranger

_PARTS = ("bin", "jars")


def usable_cache(notice: Notice, folder: Path | None = None) -> Path | None:
    """Return the folder for things that can be made again at any time, None if there is none that can be trusted.

    What is in it is run, so it has to be this user's alone, as has every folder on the way to it.
    """
    try:
        cache = _plain(folder or _users_caches() / "wallaroo")
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        why = stranger(cache)
    except (OSError, RuntimeError):
        return None  # Without a place for it, or a home folder, one starts as slowly as before.
    if why is None:
        return cache
    notice(
        f"The cache folder {cache} is not used, because {why}, and what is in it would be run as code. Starts take "
        "longer without it: set XDG_CACHE_HOME to a folder that only you can write to."
    )
    return None


def _plain(cache: Path) -> Path:
    """Return a folder in place of one whose name the JVM would not take as it is.

    The JVM checks the paths in there against those of the run before, so a link for the run would not do.
    """
    return cache if is_plain(cache) else short_users_folder() / ".cache"


def _users_caches() -> Path:
    chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # By convention a path that is not absolute counts for nothing: it would lead to another place from each folder.
    return chosen if chosen.is_absolute() else Path.home() / ".cache"


def spark_home(installed: Path, cache: Path | None, notice: Notice) -> Path:
    """Return the home for the Spark of the package in the folder `installed`; without a cache, that is the folder."""
    if cache is None:
        return installed
    identity = hashlib.sha256(str(installed).encode()).hexdigest()[:16]
    home = cache / f"spark-home-{identity}"
    links = {part: installed / part for part in _PARTS}
    try:
        home.mkdir(mode=0o700, exist_ok=True)
        for part, target in links.items():
            with suppress(FileExistsError):  # From an earlier run, or by one that starts at the same time.
                (home / part).symlink_to(target)
        is_sound = stranger(home) is None and {path.name: path.readlink() for path in home.iterdir()} == links
    except OSError:
        is_sound = False
    if not is_sound:
        notice(f"{home} is not as Wallaroo has made it, and not used. Starts take longer until you delete it.")
    return home if is_sound else installed
