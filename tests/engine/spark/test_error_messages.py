"""Spark's errors, translated into readable messages."""

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from wallaroo.engine.directory.home import Home
from wallaroo.engine.failure_kinds import Kind
from wallaroo.engine.spark.error_messages import (
    cannot_go_on,
    cause,
    failure_of_start,
    failure_of_throwable,
    translate_spark_errors,
)
from wallaroo.errors import DirectoryError, WallarooError

STARTED = "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n: "
MEMORY = "Spark has used up the memory that it was given (spark.driver.memory). Give it more, for example --spark-conf "


HEAP = "java.lang.OutOfMemoryError: Java heap space"
WORDS = {
    f"Job aborted\nCaused by: {HEAP}\n\tat java.base": f"{MEMORY}spark.driver.memory=2g.",
    "Terminating due to java.lang.OutOfMemoryError: GC overhead limit exceeded": f"{MEMORY}spark.driver.memory=2g.",
    "java.lang.OutOfMemoryError: unable to create native thread": "the system does not allow it to start more "
    "threads; raise",
    "Could not reserve enough space for 2097152KB object heap": "there is too little memory left for Spark, or a",
    "OpenJDK: os::commit_memory(0x0, 1, 0) failed; error='Not enough space'": "there is too little memory left for",
    f"{STARTED}java.lang.IllegalArgumentException: System memory 25952 must be at least 47185. Please": (
        "Spark was given too little memory (spark.driver.memory). Give it more"
    ),
    f"{STARTED}java.lang.IllegalArgumentException: spark.task.cpus should be int, but was x\n\tat org": (
        "--spark-conf spark.task.cpus=x is not what Spark expects there: int"
    ),
    "[INVALID_CONF] The value 'x y' in the config \"spark.a.b\" is invalid. It should be a/an 'time' value. SQL": (
        "--spark-conf spark.a.b=x y is not what Spark expects there: time"
    ),
    f"{STARTED}java.lang.ClassNotFoundException: no.such.Class\n\tat java": "Spark cannot find the class "
    "no.such.Class.",
    f"{STARTED}org.apache.spark.SparkException: something else\n\tat org.apache.spark": "something else",
    # What our own code says is not interpreted.
    "wallaroo.errors.WallarooError: 'OutOfMemoryError: Java heap space' is bad\n\tat org": (
        "'OutOfMemoryError: Java heap space' is bad"
    ),
}


@pytest.mark.parametrize(("text", "said"), WORDS.items())
def test_what_ends_a_run_is_explained_clearly(tmp_path, text, said):
    lines = str(cannot_go_on(cause(text), Home(tmp_path))).splitlines()
    assert lines[0].startswith(f"The application cannot continue: {said}")
    assert len(lines) == 3
    assert not any("java." in line or "org.apache" in line for line in lines)


def test_what_the_system_refuses_in_the_directory_is_reported_as_such(tmp_path):
    home = Home(tmp_path)
    with pytest.raises(DirectoryError) as refused, translate_spark_errors(home):
        (home.path / "not" / "there").read_text()
    assert str(refused.value) == (
        f"The directory {home.path} cannot be used: {home.path}/not/there: No such file or directory. Fix that, "
        "or choose another one with --resilience-dir."
    )
    with pytest.raises(FileNotFoundError), translate_spark_errors(home):
        (tmp_path.parent / "not" / "there").read_text()


@pytest.mark.parametrize(
    ("chatter", "said"),
    [
        ("WARNING: x\nTerminating due to java.lang.OutOfMemoryError: Java heap space\n", MEMORY),
        ("WARNING: Using incubator modules\n", "Spark's process has ended unexpectedly"),
        (None, "Spark's process has ended unexpectedly"),
    ],
)
def test_the_last_output_of_the_jvm_is_reported(tmp_path, chatter, said):
    home = Home(tmp_path)
    home.open()
    if chatter is not None:
        home.spark_output.write_text(chatter)
    with pytest.raises(WallarooError, match="The application cannot continue") as refused, translate_spark_errors(home):
        raise ConnectionRefusedError
    assert str(refused.value).startswith(f"The application cannot continue: {said}")
    home.close()


class Throwable:
    """What py4j gives for something that the JVM has thrown."""

    def __init__(self, name, message, cause=None):
        self._name, self._message, self._cause = name, message, cause

    def getClass(self):  # noqa: N802
        return self

    def getName(self):  # noqa: N802
        return self._name

    def getMessage(self):  # noqa: N802
        return self._message

    def getCause(self):  # noqa: N802
        return self._cause

    def toString(self):  # noqa: N802
        return f"{self._name}: {self._message}"


@pytest.mark.parametrize(
    ("root", "kind"),
    [
        (
            ("wallaroo.BlockSource$IngressLost", "The process that accepts connections has closed the connection"),
            Kind.INGRESS,
        ),
        # Texts do not count: an error may quote what another process printed.
        (("java.io.IOException", "No space left on device"), Kind.LOST),
        (("java.io.IOException", "Connection reset"), Kind.LOST),
        (("java.io.EOFException", None), Kind.LOST),
    ],
)
def test_what_the_jvm_throws_is_distinguished_by_its_classes(root, kind):
    thrown = Throwable("org.apache.spark.SparkException", "Job aborted", Throwable(*root))
    assert failure_of_throwable(Throwable("StreamingQueryException", "Job aborted", thrown)).kind == kind


class Gone:
    """Something that was thrown by a JVM that no longer exists."""

    def toString(self):  # noqa: N802 - Java's
        raise Py4JNetworkError("Answer from Java side is empty")


@pytest.mark.parametrize("error", [Py4JError("An error occurred while calling o95.sc"), Py4JNetworkError()])
def test_a_jvm_that_ends_while_a_query_is_started_is_replaced(error):
    assert failure_of_start(error).kind == Kind.LOST
    thrown = Py4JError("An error occurred")
    thrown.java_exception = Gone()
    assert failure_of_start(thrown).kind == Kind.LOST
