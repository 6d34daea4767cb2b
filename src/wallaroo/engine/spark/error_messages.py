"""Readable messages for failures of Spark: its own messages are long, and go to its log."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from wallaroo.engine.directory.home import Home
from wallaroo.engine.failure_kinds import Failure, Kind, failure_of
from wallaroo.errors import DirectoryError, SparkStartError, WallarooError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


_OUR_OWN = re.compile(r"wallaroo(?:\.\w+)*\.\w*Error: (.+)")
"""An error that our own code has raised in a worker or in the driver."""

_GONE = "Spark's process has ended unexpectedly"
_INGRESS_LOST = "wallaroo.BlockSource$IngressLost"

_TELLING = (
    # Spark's message for a worker that died.
    re.compile(r"(Python worker exited unexpectedly \(crashed\))"),
    re.compile(r"(Python worker failed to connect back|Executor heartbeat timed out|ExecutorLostFailure .+)"),
    # An error of any other Python code, except py4j's own wrapper.
    re.compile(r"^\s*((?!py4j)[\w.]*(?:Error|Exception): .+)", re.MULTILINE),
    re.compile(r"Caused by: (.+)"),
    # An exception of the JVM without a cause.
    re.compile(r"^: (.+)", re.MULTILINE),
)


def cause(text: str) -> str:
    r"""Return the part of a Spark error that says what happened.

    >>> cause("boom\nwallaroo.ingress.log_format.LogCorruptError: the log is damaged\n\tat org.apache")
    'the log is damaged'
    >>> cause("py4j.protocol.Py4JJavaError: An error occurred\nCaused by: java.io.IOException: No space left")
    'No space left'
    >>> cause("An error occurred while calling None.JavaSparkContext.\n: java.lang.Exception: no\n\tat org.apache")
    'no'
    """
    if found := _OUR_OWN.findall(text):
        return str(found[-1]).strip()
    if words := known_cause(text):
        return words
    for pattern in _TELLING:
        if found := pattern.findall(text):
            return without_java(str(found[-1]).strip())
    return text.strip().partition("\n")[0] or "unknown"


def failure_of_query(query: StreamingQuery) -> Failure:
    """Return why a query has ended."""
    found = query._jsq.exception()  # noqa: SLF001 - PySpark keeps only its text
    if not found.isDefined():
        return Failure(Kind.LOST, "its query has ended")
    return failure_of_throwable(found.get())


def failure_of_start(error: Exception) -> Failure:
    """Return why a query, or Spark, could not be started."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - comes with Spark, which only a run needs

    throwable = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    try:
        if throwable is not None:
            return failure_of_throwable(throwable)
    except Py4JError as gone:
        error = gone
    if isinstance(error, Py4JError):
        # The JVM is gone.
        return Failure(Kind.LOST, _GONE)
    return Failure(Kind.LOST, str(error)) if isinstance(error, SparkStartError) else failure_of(error)


def failure_of_throwable(throwable: Any) -> Failure:
    """Return the failure for an exception of the JVM.

    Java exceptions have no error numbers, so a full disk cannot be recognized here.
    """
    text = cause(str(throwable.toString()))
    while throwable is not None:
        if throwable.getClass().getName() == _INGRESS_LOST:
            return Failure(Kind.INGRESS, str(throwable.getMessage()))
        throwable = throwable.getCause()
    return Failure(Kind.LOST, text)


def cannot_go_on(reason: str, home: Home) -> WallarooError:
    """Return the error that ends a run."""
    reason = reason.replace(str(home.for_spark), str(home.path))
    return WallarooError(
        f"The application cannot continue: {reason.rstrip('.')}.\n"
        "Accepted messages are kept: once the cause is fixed, the same command resumes from there.\n"
        f"Spark's log: {home.spark_log}"
    )


@contextmanager
def translate_spark_errors(home: Home) -> Iterator[None]:
    """Turn errors of Spark, and of calls to a JVM that is gone, into a readable error."""
    from py4j.protocol import Py4JError, Py4JJavaError  # noqa: PLC0415 - comes with Spark, which only a run needs
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise cannot_go_on(cause(str(error)), home) from error
    except (Py4JError, ConnectionError) as error:
        raise cannot_go_on(jvm_exit_reason(home), home) from error
    except OSError as error:
        if not str(error.filename).startswith((str(home.path), str(home.for_spark))):
            raise
        raise DirectoryError(
            f"The directory {home.path} cannot be used: {error.filename}: {error.strerror}. Fix that, or "
            "choose another one with --resilience-dir."
        ) from error


def jvm_exit_reason(home: Home) -> str:
    """Return why Spark's JVM has ended: a known message in its output, otherwise its exit status."""
    from pyspark import SparkContext  # noqa: PLC0415

    with suppress(OSError):
        if words := known_cause(home.spark_output.read_text(errors="replace")):
            return words
    try:
        status: int = SparkContext._gateway.proc.wait(timeout=5)  # type: ignore[union-attr] # noqa: SLF001
    except (AttributeError, subprocess.TimeoutExpired):
        return _GONE
    if status == -signal.SIGKILL:
        return f"{_GONE}: it was killed by a user, or by the system for lack of memory"
    return f"{_GONE}, with {signal.Signals(-status).name if status < 0 else f'exit code {status}'}"


_MORE = "Give it more, for example --spark-conf spark.driver.memory=2g"

_WORDS = {
    r"OutOfMemoryError: unable to create|Cannot create worker GC thread": (
        "the system does not allow it to start more threads; raise the limit on processes (ulimit -u)"
    ),
    r"OutOfMemoryError: (?:Java heap space|GC overhead|Metaspace|Requested array|Cannot reserve)": (
        f"Spark has used up the memory that it was given (spark.driver.memory). {_MORE}"
    ),
    r"System memory \d+ must be at least|Too small (?:maximum|initial) heap|too large for (?:the )?heap": (
        f"Spark was given too little memory (spark.driver.memory). {_MORE}"
    ),
    r"Could not reserve enough space|insufficient memory for the Java|Cannot allocate memory|commit_memory": (
        "there is too little memory left for Spark, or a limit on it (ulimit -v). Free some, or give Spark less, for "
        "example --spark-conf spark.driver.memory=512m"
    ),
    r"Not allowed to specify max heap": (
        "memory is not given with -Xmx; write --spark-conf spark.driver.memory=2g instead"
    ),
    r"(spark\.[\w.]+) should be (\w+), but was ([^\n]*)": r"--spark-conf \1=\3 is not what Spark expects there: \2",
    r"The value '([^']*)' in the config \"([\w.]+)\" is invalid\. It should be a/an '([^']+)' value": (
        r"--spark-conf \2=\1 is not what Spark expects there: \3"
    ),
    r"(?:ClassNotFoundException|NoClassDefFoundError): ([\w.$/]+)": (
        r"Spark cannot find the class \1. If a setting names it, check --spark-conf"
    ),
    r"ExecutorLostFailure \(executor (\S+) [^)]*\) Reason: ([^\n]*)": r"executor \1 of the cluster has ended (\2)",
    r"All masters are unresponsive": "the Spark master no longer answers. Start it again, or check --master",
}

_JAVA_CLASS = re.compile(r"^(?:[a-z]\w*\.)+\w*(?:Exception|Error): (?=\S)")


def known_cause(text: str) -> str | None:
    """Return a readable message for a known error in `text`, None if there is none.

    >>> known_cause("Terminating due to java.lang.OutOfMemoryError: Java heap space")[:48]
    'Spark has used up the memory that it was given ('
    >>> known_cause("spark.task.maxFailures should be int, but was many")
    '--spark-conf spark.task.maxFailures=many is not what Spark expects there: int'
    >>> known_cause("ExecutorLostFailure (executor 0 exited caused by a task) Reason: Command exited with code 137")
    'executor 0 of the cluster has ended (Command exited with code 137)'
    """
    for pattern, words in _WORDS.items():
        if found := re.search(pattern, text):
            return found.expand(words)
    return None


def without_java(text: str) -> str:
    """Return a line of Spark's output without the name of the Java class at its start.

    >>> without_java("java.io.IOException: the disk is gone")
    'the disk is gone'
    """
    return _JAVA_CLASS.sub("", text)
