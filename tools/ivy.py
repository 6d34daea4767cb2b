"""Jars of real servers, fetched once by the Ivy that PySpark brings, and kept in the user's cache folder."""

import contextlib
import fcntl
import hashlib
import ssl
import struct
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pyspark

from wallaroo.engine.spark.cache import usable_cache
from wallaroo.engine.spark.java import java_home

_PATIENCE = 400
_MODULE = """\
<ivy-module version="2.0">
  <info organisation="tools" module="{name}"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""


class OfflineError(Exception):
    """The jars are not here, and cannot be fetched."""


def cache_folder() -> Path:
    """Return a folder that stays from run to run: the one that applications use, or else one of the project."""
    folder = usable_cache(lambda _text: None) or Path(__file__).parents[1] / "build" / "cache"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def java() -> Path:
    """Return the Java that applications use on this machine."""
    return Path(java_home(cache_folder()), "bin", "java")


def jars(name: str, main: str, *others: str) -> Path:
    """Return a folder with a jar, `group:name:version`, and others, and all that these need; `name` is the folder's.

    The first call on a machine fetches them.

    Raises:
        OfflineError: They cannot be fetched.
    """
    _, module, version = main.split(":")
    cache = cache_folder()
    there = cache / f"{name}-{version}"
    # All workers of the test runner want them at the same time.
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not there.exists():
            with tempfile.TemporaryDirectory(dir=cache, prefix=f"{name}-") as made:
                _fetch(Path(made), name, (main, *others))
                # Ivy only prints what it cannot find, and would continue with the rest.
                if not (Path(made) / "jars" / f"{module}-{version}.jar").exists():
                    raise OfflineError(f"{main} was not found")
                (Path(made) / "jars").rename(there)
    return there


def _fetch(folder: Path, name: str, wanted: tuple[str, ...]) -> None:
    """Put the jars into `folder/jars`."""
    (folder / "ivy.xml").write_text(_MODULE.format(name=name, dependencies="\n".join(map(_dependency, wanted))))
    store = folder / "trust.jks"
    certificates = _trusted_certificates()
    _write_trust_store(store, certificates)
    trust = [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStoreType=JKS"] if certificates else []
    command = [java(), *trust, *_proxies(), "-jar", next(Path(pyspark.__file__).parent.glob("jars/ivy-*.jar"))]
    command += ["-warn", "-cache", folder / "ivy", "-ivy", folder / "ivy.xml", "-confs", "default"]
    command += ["-retrieve", folder / "jars/[artifact]-[revision].[ext]"]
    try:
        ran = subprocess.run(  # noqa: S603 - the Ivy that PySpark brings.
            command,
            check=False,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_PATIENCE,
        )
    except subprocess.TimeoutExpired:
        raise OfflineError(f"they did not arrive within {_PATIENCE} seconds") from None
    if ran.returncode:
        raise OfflineError(ran.stdout.strip()[-2000:])


def _dependency(coordinates: str) -> str:
    group, module, version = coordinates.split(":")
    return f'    <dependency org="{group}" name="{module}" rev="{version}" conf="default->default"/>'


def _proxies() -> Iterator[str]:
    """Have Java go through the proxy that Python would use."""
    for scheme, url in urllib.request.getproxies().items():
        where = urlsplit(url)
        if scheme in {"http", "https"} and where.hostname:
            yield f"-D{scheme}.proxyHost={where.hostname}"
            yield f"-D{scheme}.proxyPort={where.port or 80}"


def _trusted_certificates() -> list[bytes]:
    """Return the certificates (DER) that Python trusts: a Java that came as a package does not know the machine's."""
    context = ssl.create_default_context()
    folder = Path(ssl.get_default_verify_paths().capath or "/nowhere")
    if not context.get_ca_certs():  # Those of a folder are loaded only when they are needed.
        for file in folder.glob("*.0"):
            with contextlib.suppress(OSError):
                context.load_verify_locations(file)
    return context.get_ca_certs(binary_form=True)


def _write_trust_store(path: Path, certificates: list[bytes]) -> None:
    """Write a Java trust store, of the format that needs no cryptography."""
    body = struct.pack(">III", 0xFEEDFEED, 2, len(certificates))
    for number, der in enumerate(certificates):
        body += struct.pack(">I", 2) + _text(f"ca{number}") + struct.pack(">q", 0) + _text("X.509")
        body += struct.pack(">I", len(der)) + der
    # The password that is used for stores of public things, and the words that the format asks for.
    digest = hashlib.sha1("changeit".encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()  # noqa: S324 - the format asks for it.
    path.write_bytes(body + digest)


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()
