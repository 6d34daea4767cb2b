"""The process that forks Spark's Python workers: PySpark's own daemon, with the packages of a worker already imported.

When a worker is lost, Spark kills all workers of the query, and the next attempt has to wait for new ones. Forked from
here they start with their packages imported, and share their memory. The user's program is not imported here: it may
start threads on import, which do not survive a fork. numpy and Arrow also start threads, but support forking.
"""

from __future__ import annotations

import gc
from importlib import import_module

_IMPORTED = ("pyarrow", "pyspark.worker", "wallaroo.engine.stages.tasks")


def main() -> None:
    """Import what workers need, and fork a worker whenever Spark requests one, until it ends."""
    from pyspark.daemon import manager  # noqa: PLC0415 - this module is also imported without Spark

    for name in _IMPORTED:
        import_module(name)
    # Otherwise the garbage collector of a worker would visit these objects, and so copy shared pages.
    gc.collect()
    gc.freeze()
    manager()


if __name__ == "__main__":
    main()
