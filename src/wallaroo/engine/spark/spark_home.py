"""The SPARK_HOME folder: the programs of the installed package, without its zipped copy of PySpark.

Spark adds `python/lib/pyspark.zip` of its home to the module path of every Python process it starts. Modules in that
file are compiled again by each process, which takes nearly a second, and half a dozen processes start one after the
other. Without it they import the same modules from where they are installed, already compiled.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from wallaroo.engine.directory.quote_free_paths import is_safe_path
from wallaroo.engine.directory.run_folder import short_users_folder
from wallaroo.notices import Notice
from wallaroo.path_trust import untrusted_reason

_PARTS = ("bin", "jars")


def usable_cache(notice: Notice, folder: Path | None = None) -> Path | None:
    """Return the cache folder, None if there is none that can be trusted.

    Its contents are executed, so other users must not be able to write to it, or to any folder above it.
    """
    try:
        cache = _plain(folder or _users_caches() / "wallaroo")
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        why = untrusted_reason(cache)
    except (OSError, RuntimeError):
        return None  # Without a writable folder, or a home folder, startup is slower.
    if why is None:
        return cache
    notice(
        f"The cache folder {cache} is not used, because {why}, and what is in it would be run as code. Starts take "
        "longer without it: set XDG_CACHE_HOME to a folder that only you can write to."
    )
    return None


def _plain(cache: Path) -> Path:
    """Return a replacement for a folder whose path has characters that are special to the JVM.

    The JVM compares the paths in it with those of the previous run, so a link for each run is not enough.
    """
    return cache if is_safe_path(cache) else short_users_folder() / ".cache"


def _users_caches() -> Path:
    chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # By convention a relative path is ignored.
    return chosen if chosen.is_absolute() else Path.home() / ".cache"


def spark_home(installed: Path, cache: Path | None, notice: Notice) -> Path:
    """Return the SPARK_HOME for the package in the folder `installed`; without a cache, it is that folder."""
    if cache is None:
        return installed
    identity = hashlib.sha256(str(installed).encode()).hexdigest()[:16]
    home = cache / f"spark-home-{identity}"
    links = {part: installed / part for part in _PARTS}
    try:
        home.mkdir(mode=0o700, exist_ok=True)
        for part, target in links.items():
            with suppress(FileExistsError):  # Created by an earlier or a concurrent run.
                (home / part).symlink_to(target)
        is_sound = untrusted_reason(home) is None and {path.name: path.readlink() for path in home.iterdir()} == links
    except OSError:
        is_sound = False
    if not is_sound:
        notice(
            f"{home} has been changed since Wallaroo created it, and is not used. Starts take longer until you delete "
            "it."
        )
    return home if is_sound else installed
