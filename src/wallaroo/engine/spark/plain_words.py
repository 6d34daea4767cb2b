"""What Spark and its JVM say when they cannot go on, in words for a person who knows neither."""

from __future__ import annotations

import re

_MORE = "Give it more, for example --spark-conf spark.driver.memory=2g"

_WORDS = {
    r"OutOfMemoryError: unable to create|Cannot create worker GC thread": (
        "the system lets it start no more threads; raise the limit on processes (ulimit -u)"
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
        r"Spark knows no class \1. If a setting names it, check --spark-conf"
    ),
    r"ExecutorLostFailure \(executor (\S+) [^)]*\) Reason: ([^\n]*)": r"executor \1 of the cluster has ended (\2)",
    r"All masters are unresponsive": "the Spark master no longer answers. Start it again, or check what --master says",
}

_JAVA_CLASS = re.compile(r"^(?:[a-z]\w*\.)+\w*(?:Exception|Error): (?=\S)")


def known_words(text: str) -> str | None:
    """Return in plain words what `text` says, None if it is nothing that is known.

    >>> known_words("Terminating due to java.lang.OutOfMemoryError: Java heap space")[:48]
    'Spark has used up the memory that it was given ('
    >>> known_words("spark.task.maxFailures should be int, but was many")
    '--spark-conf spark.task.maxFailures=many is not what Spark expects there: int'
    >>> known_words("ExecutorLostFailure (executor 0 exited caused by a task) Reason: Command exited with code 137")
    'executor 0 of the cluster has ended (Command exited with code 137)'
    """
    for pattern, words in _WORDS.items():
        if found := re.search(pattern, text):
            return found.expand(words)
    return None


def without_java(text: str) -> str:
    """Return a line of Spark's without the name of the Java class in front of it.

    >>> without_java("java.io.IOException: the disk is gone")
    'the disk is gone'
    """
    return _JAVA_CLASS.sub("", text)
