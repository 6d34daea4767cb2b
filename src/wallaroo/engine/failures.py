"""Why a run cannot go on, in words for a person: Spark's own account of it is long, and goes to its log."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from wallaroo.engine.home import Home
from wallaroo.errors import WallarooError

_TELLING = (
    # What our own code found in a worker or in the driver.
    re.compile(r"wallaroo(?:\.\w+)*\.\w*Error: (.+)"),
    # What Spark says of a worker that died.
    re.compile(r"(Python worker exited unexpectedly \(crashed\))"),
    re.compile(r"(Python worker failed to connect back|Executor heartbeat timed out|ExecutorLostFailure .+)"),
    # What any other Python code raised, but for the messenger's own error.
    re.compile(r"^\s*((?!py4j)[\w.]*(?:Error|Exception): .+)", re.MULTILINE),
    re.compile(r"Caused by: (.+)"),
)


def cause(text: str) -> str:
    r"""Return the part of an error of Spark's that says what happened.

    >>> cause("boom\nwallaroo.ingress.log_format.LogCorruptError: the log is damaged\n\tat org.apache")
    'the log is damaged'
    >>> cause("py4j.protocol.Py4JJavaError: An error occurred\nCaused by: java.io.IOException: No space left")
    'java.io.IOException: No space left'
    """
    for pattern in _TELLING:
        if found := pattern.findall(text):
            return str(found[-1]).strip()
    return text.strip().partition("\n")[0] or "unknown"


def cannot_go_on(reason: str, home: Home) -> WallarooError:
    """Return the error that ends a run."""
    return WallarooError(
        f"The application cannot go on: {reason.rstrip('.')}.\n"
        "What was accepted is kept: once the cause is gone, the same command goes on from there.\n"
        f"Spark's log: {home.spark_log}"
    )


@contextmanager
def told_plainly(home: Home) -> Iterator[None]:
    """Turn what Spark raises, or what calls to a JVM that is gone raise, into one plain error."""
    from py4j.protocol import Py4JError, Py4JJavaError  # noqa: PLC0415 - comes with Spark, which only a run needs
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise cannot_go_on(cause(str(error)), home) from error
    except (Py4JError, ConnectionError) as error:
        raise cannot_go_on("Spark's process has ended unexpectedly", home) from error
