"""Our own classes for Spark's JVM: compiled by Janino, which comes with Spark, and cached in the user's cache folder.

There is no Java compiler where applications run. Janino supports Java 8 without lambdas, generic methods or variable
arguments, and takes a second or more, so the compiled classes are cached for the next start.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from wallaroo.path_trust import untrusted_reason

_LANGUAGE = 8
_SOURCES = sorted(Path(__file__).with_name("jvm").glob("*.java"))


def load_classes(bridge: Any, cache: Path | None, temporary: Path) -> Path:
    """Load our classes into the JVM before it starts Spark; return the JAR file that contains them."""
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


def _is_trusted(jar: Path) -> bool:
    try:
        return not jar.is_symlink() and untrusted_reason(jar) is None
    except OSError:
        return False


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
