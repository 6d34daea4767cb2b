"""The environment in which Spark's JVM, and with it the Python workers, are started."""

from __future__ import annotations

import locale
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Set variables of the environment for the time of a `with` block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def names_understood() -> dict[str, str]:
    """Return what makes the JVM read names of files as this process does.

    Python takes them for UTF-8 also where the system is set to know nothing but ASCII; Java would see question marks.
    """
    if sys.getfilesystemencoding() == "utf-8" and locale.getencoding().lower() != "utf-8":
        return {"LC_ALL": "C.UTF-8"}
    return {}
