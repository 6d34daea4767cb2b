"""The process that forks Spark's Python workers: PySpark's own daemon, with the packages of a worker already imported.

When a worker is lost, Spark kills all workers of the query, and the next attempt has to wait for new ones. Forked from
here they start with their packages imported, and share their memory. The user's program is not imported here: it may
start threads on import, which do not survive a fork. numpy and Arrow also start threads, but support forking on Linux;
on macOS the system's own linear algebra, which numpy may use on import, does not, so nothing is imported there.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module

_IMPORTED = ("pyarrow", "pandas", "pyspark.worker", "wallaroo.engine.stages.tasks")
"""PySpark imports pandas for the first task of a worker."""


def main() -> None:
    """Import what workers need, and fork a worker whenever Spark requests one, until it ends."""
    from pyspark.daemon import manager  # noqa: PLC0415 - this module is also imported without Spark

    if sys.platform == "linux":
        for name in _IMPORTED:
            import_module(name)
        os.register_at_fork(after_in_child=_seed_numpy)
    # Otherwise the garbage collector of a worker would visit these objects, and so copy shared pages.
    gc.collect()
    gc.freeze()
    manager()


def _seed_numpy() -> None:
    """Give a worker random numbers of its own; older releases of numpy load their global generator on import."""
    random = sys.modules.get("numpy.random")
    if random is not None:
        random.seed()


if __name__ == "__main__":
    main()
