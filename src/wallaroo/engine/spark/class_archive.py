"""A class-data archive for Spark's JVM: half of the time that a start takes goes into loading its classes.

The first run writes the classes it used into an archive when it ends; later runs map it into memory. The JVM itself
checks that an archive fits its classpath and goes without where it does not, so there is nothing to get wrong.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from wallaroo.engine.spark.spark_home import cache_folder

_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xshare:auto"


class ClassArchive:
    """The archive for one Java and one Spark, in the user's cache folder."""

    def __init__(self, java_home: str, spark_home: str, spark_version: str, cache: Path | None = None) -> None:
        folder = cache or cache_folder()
        java = Path(java_home, "bin", "java").resolve()
        # An archive of ours goes on top of the one that comes with a JDK; small runtimes come without.
        self._possible = (java.parent.parent / "lib" / "server" / "classes.jsa").exists()
        identity = hashlib.sha256(
            f"{java}:{java.stat().st_mtime_ns}:{spark_home}:{spark_version}".encode()
        ).hexdigest()[:16]
        self._path = folder / f"spark-{spark_version}-{identity}.jsa"
        self._new = self._path.with_suffix(f".{os.getpid()}")

    def java_options(self) -> str:
        """Return the options that use the archive, or have it written when there is none yet."""
        if not self._possible:
            return ""
        if self._path.exists():
            return f'-XX:SharedArchiveFile="{self._path}" {_QUIET}'
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            return ""  # Without a place for it one starts as before.
        return f'-XX:ArchiveClassesAtExit="{self._new}" {_QUIET}'

    def keep(self) -> None:
        """Put what the JVM wrote, if it did, where the next run looks for it; call it after the JVM has ended."""
        if self._new.exists():
            self._new.replace(self._path)
