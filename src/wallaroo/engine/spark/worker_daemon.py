"""The process that forks Spark's Python workers: PySpark's own, with what every worker needs imported before it forks.

When a worker is lost, Spark ends all workers of the query, and the next attempt has to wait for new ones. Forked from
here they have their packages at once, and share the memory of these. The user's program is not among them: it may start
threads when it is imported, and those do not survive a fork. Those of numpy and Arrow do; both are made for it.
"""

from __future__ import annotations

import gc
from importlib import import_module

_IMPORTED = ("pyarrow", "pyspark.worker", "wallaroo.engine.stages.tasks")


def main() -> None:
    """Import what workers need, and fork workers whenever Spark asks for one, until it ends."""
    from pyspark.daemon import manager  # noqa: PLC0415 - this module is imported where there is no Spark, too

    for name in _IMPORTED:
        import_module(name)
    # The garbage collector of a worker would otherwise visit these objects, and so copy the pages that are shared.
    gc.collect()
    gc.freeze()
    manager()


if __name__ == "__main__":
    main()
