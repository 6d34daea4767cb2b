"""What is kept in the user's cache folder to start Spark faster: a class-data archive, our own classes, a SPARK_HOME.

All of it is executed, so it is used only if no other user could have written it.
"""

from __future__ import annotations

import hashlib
import os
import time
import zipfile
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

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


def _is_trusted(file: Path) -> bool:
    """Return whether there is such a file, and no other user could have written it."""
    try:
        return not file.is_symlink() and untrusted_reason(file) is None
    except OSError:
        return False


def spark_home(installed: Path, cache: Path | None, notice: Notice) -> Path:
    """Return the SPARK_HOME for the package in the folder `installed`; without a cache, it is that folder.

    It has the programs of the installed package, without its zipped copy of PySpark: Spark adds
    `python/lib/pyspark.zip` of its home to the module path of every Python process it starts. Modules in that file are
    compiled again by each process, which takes nearly a second, and half a dozen processes start one after the other.
    Without it they import the same modules from where they are installed, already compiled.
    """
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


_LANGUAGE = 8
_SOURCES = sorted(Path(__file__).with_name("jvm").glob("*.java"))


def load_classes(bridge: Any, cache: Path | None, temporary: Path) -> Path:
    """Load our own classes into the JVM before it starts Spark; return the JAR file that contains them.

    There is no Java compiler where applications run: Janino, which comes with Spark, compiles them. It supports Java 8
    without lambdas, generic methods or variable arguments, and takes a second or more, so the compiled classes are
    cached for the next start.
    """
    texts = [source.read_text() for source in _SOURCES]
    # The compiled classes depend on the version of Spark that they are compiled against.
    made_of = "".join([version("pyspark"), *texts])
    name = f"classes-{hashlib.sha256(made_of.encode()).hexdigest()[:16]}.jar"
    jar = (cache or temporary) / name
    jvm = bridge.jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if not _is_trusted(jar):
        _write(jar, _compiled(jvm, loader, texts))
    loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())
    return jar


def _compiled(jvm: Any, loader: Any, texts: list[str]) -> dict[str, bytes]:
    """Return the classes by their names."""
    classes: dict[str, bytes] = {}
    for text in texts:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(loader)
        compiler.setSourceVersion(_LANGUAGE)
        compiler.setTargetVersion(_LANGUAGE)
        compiler.cook(text)
        compiled = compiler.getBytecodes()
        classes |= {name: bytes(compiled.get(name)) for name in compiled.keySet()}
    return classes


def _write(jar: Path, classes: dict[str, bytes]) -> None:
    """Write the file atomically: another run may start at the same time."""
    unfinished = jar.with_suffix(f".{os.getpid()}")
    unfinished.unlink(missing_ok=True)
    os.close(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with zipfile.ZipFile(unfinished, "w") as archive:
        for name, code in classes.items():
            archive.writestr(f"{name.replace('.', '/')}.class", code)
    unfinished.replace(jar)


_WRITING_SECONDS = 600.0
"""How long other runs leave it to one of them to write the archive; that run may last much longer."""
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xshare:auto"


class ClassDataArchive:
    """A class-data archive for Spark's JVM: loading its classes takes half of the startup time.

    The first run writes the classes it used into an archive when it ends, which takes some seconds; runs that are
    started meanwhile do without one. Later runs map it into memory. The JVM checks that an archive matches its
    classpath, and otherwise ignores it, for example after Spark has been reinstalled. So the name of an archive
    includes a hash of the files it was made from, and a new archive replaces those of other files.
    """

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


def _short_hash(*parts: object) -> str:
    return hashlib.sha256(repr(list(map(str, parts))).encode()).hexdigest()[:16]
