"""A class-data archive for Spark's JVM: loading its classes takes half of the startup time.

The first run writes the classes it used into an archive when it ends, which takes some seconds; runs that are started
meanwhile do without one. Later runs map it into memory. The JVM checks
that an archive matches its classpath, and otherwise ignores it, for example after Spark has been reinstalled. So the
name of an archive includes a hash of the files it was made from, and a new archive replaces those of other files.
"""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path

from wallaroo.path_trust import untrusted_reason

_WRITING_SECONDS = 600.0
"""So long other runs rely on the one that is going to write an archive; it may run for days."""
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xshare:auto"


class ClassDataArchive:
    """The archive for one Java and one Spark, in the user's cache folder."""

    def __init__(self, java_home: str, spark_home: str, spark_version: str, cache: Path | None) -> None:
        """Determine the name of the archive; without a `cache` there is none."""
        folder = cache or Path()
        java = Path(java_home, "bin", "java").resolve()
        # A dynamic archive extends the one that comes with a JDK; minimal runtimes have none.
        comes_with_one = (java.parent.parent / "lib" / "server" / "classes.jsa").exists()
        self._possible = comes_with_one and cache is not None
        self._place = f"spark-{_short_hash(java, spark_home)}"
        files = [java, *sorted(Path(spark_home, "jars").glob("*.jar"))]
        stamps = [(file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in files]
        self._path = folder / f"{self._place}-{_short_hash(spark_version, stamps)}.jsa"
        self._new = self._path.with_suffix(f".{os.getpid()}")
        self._writer = self._path.with_suffix(".writer")
        """A file with the process id of the run that is going to write the archive."""

    def java_options(self) -> str:
        """Return the options to use the archive, or to write it if there is none yet."""
        if not self._possible:
            return ""
        if _is_trusted(self._path):
            return f'-XX:SharedArchiveFile="{self._path}" {_QUIET}'
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._is_being_written():
                return ""
            self._writer.write_text(str(os.getpid()))
        except OSError:
            return ""  # Without a cache folder Spark starts without an archive.
        return f'-XX:ArchiveClassesAtExit="{self._new}" {_QUIET}'

    def _is_being_written(self) -> bool:
        """Return whether another run, which was started recently, is going to write the archive when it ends."""
        try:
            pid, age = int(self._writer.read_text()), time.time() - self._writer.stat().st_mtime
            os.kill(pid, 0)
        except (OSError, ValueError):
            return False  # There is none, or it was killed.
        return pid != os.getpid() and age < _WRITING_SECONDS

    def keep(self) -> None:
        """Move the archive that the JVM has written, if any, to its final name; call it after the JVM has ended."""
        with suppress(OSError):
            if self._possible and self._writer.read_text() == str(os.getpid()):
                self._writer.unlink()
        if self._possible and _is_trusted(self._new):
            self._new.replace(self._path)
            for other in self._path.parent.glob(f"{self._place}-*.jsa"):
                if other != self._path:
                    other.unlink(missing_ok=True)


def _is_trusted(archive: Path) -> bool:
    """Return whether there is an archive that no other user could have written: it contains code."""
    try:
        return not archive.is_symlink() and untrusted_reason(archive) is None
    except OSError:
        return False


def _short_hash(*parts: object) -> str:
    return hashlib.sha256(repr(list(map(str, parts))).encode()).hexdigest()[:16]
