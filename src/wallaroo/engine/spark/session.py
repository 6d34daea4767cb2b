"""The Spark session: its settings, each with the reason for it, and its JVM, whose output goes to a file."""

from __future__ import annotations

import locale
import logging
import os
import re
import shutil
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from wallaroo.engine.directory.home import Home
from wallaroo.engine.directory.quote_free_paths import safe_path
from wallaroo.engine.spark.cache import ClassDataArchive, load_classes, spark_home, usable_cache
from wallaroo.engine.spark.error_messages import cause, jvm_exit_reason, known_cause, without_java
from wallaroo.errors import SparkStartError
from wallaroo.files import write_atomically
from wallaroo.notices import Notice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from wallaroo.engine.spark.gateway import Jvm


DRIVER_MEMORY = "1g"
_STREAMING = "org.apache.spark.sql.execution.streaming"

_SETTINGS = {
    # A Python task over TCP stalls for 40 ms when both sides wait for each other's acknowledgements.
    "spark.python.unix.domain.socket.enabled": "true",
    # Resources of earlier attempts are freed with their objects, which an idle JVM would keep for half an hour.
    "spark.cleaner.periodicGC.interval": "2min",
    # Do not wait longer for a query to stop.
    "spark.sql.streaming.stopTimeout": "30s",
    # Start no process to read links, and write no checksum file for each file.
    "spark.sql.streaming.checkpointFileManagerClass": (
        f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # Files that Spark writes are private.
    "spark.hadoop.fs.permissions.umask-mode": "077",
    # The plan never changes: there is nothing to adapt, and few statistics are worth keeping.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.sql.ui.retainedExecutions": "5",
    "spark.driver.maxResultSize": "0",
    "spark.rpc.message.maxSize": "1024",
    "spark.python.worker.reuse": "true",
    # Workers are forked with their packages imported.
    "spark.python.daemon.module": "wallaroo.engine.spark.worker_daemon",
    # Otherwise the setting would change the environment of the workers, by which Spark pools them.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
}

_MERGED = {"spark.driver.extraJavaOptions"}
"""Settings to which the user's value is appended; all others are replaced by the user's value."""

_LOG4J = """\
rootLogger.level = {level}
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {path}
appender.file.filePattern = {path}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
"""


@dataclass(frozen=True)
class SparkOptions:
    """The user's options for Spark."""

    master: str = "local[*]"
    conf: dict[str, str] = field(default_factory=dict)
    log_level: str = "warn"

    @property
    def local(self) -> bool:
        """Return whether Spark runs in local mode, inside the driver."""
        return self.master.startswith("local")


@contextmanager
def spark_session(  # noqa: PLR0913, PLR0917 - the parts of a session
    name: str, home: Home, options: SparkOptions, java: str, temporary: Path, notice: Notice
) -> Iterator[SparkSession]:
    """Run Spark for an application, on the Java in `java`, for the duration of a `with` block.

    `temporary` is a folder for sockets and other temporary files.
    """
    import pyspark  # noqa: PLC0415 - heavy: only a run needs it

    installed = Path(pyspark.__file__).parent
    cache = usable_cache(notice)
    # A user who has set SPARK_HOME has their own Spark; so have the machines of a cluster.
    chosen = os.environ.get("SPARK_HOME")
    spark = Path(chosen or (spark_home(installed, cache, notice) if options.local else installed))
    archive = ClassDataArchive(java, str(spark), pyspark.__version__, cache)
    java_options = f"-Djava.io.tmpdir={temporary} {archive.java_options()}"
    if options.local:
        # Python does the work, and the JVM's C2 compiler would take a core from it for minutes: without C2, startup
        # takes two thirds of the time, and the first minute is as fast as the tenth.
        # But then the JVM would also reserve a small code cache, and compile again when it is full.
        java_options = f"-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m {java_options}"
    settings = _all_settings(name, home, options, java_options, temporary)
    if options.local:
        settings.setdefault("spark.python.unix.domain.socket.dir", str(temporary))
    with ExitStack() as running:
        found = {"JAVA_HOME": java, "SPARK_HOME": str(safe_path(spark, temporary / "spark"))}
        # Otherwise Spark's Python processes would import modules from the current folder first.
        with environment(**found, PYTHONSAFEPATH="1", **utf8_locale()):
            jvm = running.enter_context(_jvm(settings, home, temporary, guarded=options.local))
            session = _session(settings, home, jvm, cache, local=options.local)
        with _stopped_in_order(session, jvm, archive):
            yield session


@contextmanager
def _jvm(settings: dict[str, str], home: Home, temporary: Path, *, guarded: bool) -> Iterator[Jvm]:
    """Run Spark's JVM for the duration of a `with` block."""
    from wallaroo.engine.spark.gateway import Jvm  # noqa: PLC0415 - heavy: only a run needs it

    # The JVM takes seconds to start; import what the driver needs later meanwhile.
    threading.Thread(target=_import_all, args=["pandas", "wallaroo.engine.spark.query"], daemon=True).start()
    _log_bridge_to_file(home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYTHONHASHSEED"] = "0"  # Keys of users' own classes must have the same hash in every worker.
    assert home.lock is not None
    output = _output_file(home)
    try:
        jvm = Jvm(settings, temporary, output, home.lock, guarded=guarded)
    finally:
        os.close(output)
    try:
        yield jvm
    finally:
        jvm.kill()


def _session(settings: dict[str, str], home: Home, jvm: Jvm, cache: Path | None, *, local: bool) -> SparkSession:
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    from wallaroo.engine.spark.gateway import Bridge  # noqa: PLC0415

    _forget_session()  # If the JVM of an earlier one ended while it was created, PySpark would still ask that JVM.
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        jvm.wait_until_up()
        bridge = Bridge(jvm)
        classes = load_classes(bridge, cache, jvm.folder)
        context = SparkContext(conf=conf, gateway=bridge)
        if classes and not local:
            # Executors fetch it with their first task.
            context._jsc.addJar(classes.as_uri())  # noqa: SLF001 - the only way to it
        # It would print a traceback when the JVM ends, which is detected and reported elsewhere.
        context._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign] # noqa: SLF001
    except Exception as error:
        raise SparkStartError(
            f"Spark could not be started: {_why(home, error).rstrip('.')}.\n"
            f"Its full output is in {home.spark_log.parent}."
        ) from error
    finally:
        # Spark's handler would cancel the query on Ctrl-C, but the blocks in flight have to be finished.
        signal.signal(signal.SIGINT, interrupt)
    return SparkSession(context)


def _import_all(*modules: str) -> None:
    for module in modules:
        import_module(module)


@contextmanager
def _stopped_in_order(session: SparkSession, jvm: Jvm, archive: ClassDataArchive) -> Iterator[None]:
    """Stop Spark cleanly after a `with` block, unless that was interrupted: then everything is killed."""
    try:
        yield
    finally:
        if not isinstance(sys.exc_info()[1], KeyboardInterrupt):
            bridge: Any = session.sparkContext._gateway  # noqa: SLF001 - the only way to it
            # Errors here mean that the JVM is already gone.
            with suppress(Exception), warnings.catch_warnings(action="ignore"):
                session.stop()
            with suppress(Exception):
                bridge.shutdown()
            if jvm.stop():
                archive.keep()
            _forget_session()


def _forget_session() -> None:
    """Allow another session in this process: PySpark does not notice that a session has ended with its JVM."""
    from pyspark import SparkContext  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
    SparkSession._instantiatedSession = SparkSession._activeSession = None  # noqa: SLF001


def _all_settings(name: str, home: Home, options: SparkOptions, java_options: str, temporary: Path) -> dict[str, str]:
    """Return all settings: our own, those of this run, and the user's, which take precedence."""
    log4j = temporary / "log4j2.properties"
    log = home.for_spark / home.spark_log.relative_to(home.path)
    write_atomically(log4j, _LOG4J.format(path=log, level=options.log_level))
    shutil.rmtree(home.path / "scratch", ignore_errors=True)  # Left behind by a killed run.
    scratch = _scratch(home, temporary)
    settings = _SETTINGS | {
        "spark.app.name": name,
        "spark.master": options.master,
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.driver.memory": DRIVER_MEMORY,
        # A JVM that has run out of memory may continue without some of its threads, and wait for them forever.
        "spark.driver.extraJavaOptions": (
            f"-Dlog4j2.configurationFile={log4j.as_uri()} -XX:+ExitOnOutOfMemoryError {java_options}"
        ),
        "spark.executorEnv.PYTHONHASHSEED": "0",
        "spark.executorEnv.PYTHONSAFEPATH": "1",
    }
    if options.local or _is_loopback(options.master):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if options.local:
        # Spark's ports are only for itself: it generates a secret that no one else knows.
        settings["spark.authenticate"] = "true"
    if options.master == "yarn":
        settings["spark.yarn.isPython"] = "true"  # PySpark's own launcher would set it.
    if path := os.environ.get("PYTHONPATH"):
        settings["spark.executorEnv.PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, path.split(os.pathsep)))
    if extra := options.conf.get("spark.driver.extraJavaOptions"):
        settings["spark.driver.extraJavaOptions"] += f" {extra}"
    return settings | {key: value for key, value in options.conf.items() if key not in _MERGED}


def _scratch(home: Home, temporary: Path) -> Path:
    """Return the folder for Spark's temporary data: in the application's directory, whose disk has space for it.

    Spark resolves the links in its path, and cannot work with some characters.
    """
    fits = re.fullmatch(r"[ -+\--~]{1,1024}", os.path.realpath(home.path))
    return (home.for_spark if fits else temporary) / "scratch"


def _is_loopback(master: str) -> bool:
    return urlsplit(master).hostname in {"127.0.0.1", "localhost", "::1"}


def _output_file(home: Home) -> int:
    """Open the file for the output of the JVM and the workers; it is truncated at the start of each run."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(home.spark_output, flags, 0o600)


def _why(home: Home, error: Exception) -> str:
    """Return, as text, why Spark did not start: from the output of its JVM, or from the error."""
    from py4j.protocol import Py4JNetworkError  # noqa: PLC0415

    from wallaroo.engine.spark.gateway import JvmExitedError  # noqa: PLC0415

    said = home.spark_output.read_text(errors="replace")
    if words := known_cause(said):
        return words
    if isinstance(error, Py4JNetworkError):
        return jvm_exit_reason(home)
    if not isinstance(error, JvmExitedError):
        return cause(str(error))
    # If the JVM's command line cannot be computed, the start script prints an error of its own, which is skipped.
    lines = [line.strip() for line in said.splitlines() if line.strip() and "/bin/spark-class: line" not in line]
    errors = [line for line in lines if re.search(r"Exception|Error|Could not|Invalid", line)]
    if not lines:
        return "its process ended without any output. Perhaps the machine has too little memory"
    return without_java((errors or lines)[0].removeprefix('Exception in thread "main" ').removeprefix("Error: "))


def _log_bridge_to_file(home: Home) -> None:
    """Redirect py4j's log to a file: it would print tracebacks on the screen."""
    from py4j import java_gateway  # noqa: PLC0415

    log = logging.getLogger("py4j")
    handler = RotatingFileHandler(home.spark_log.parent / "driver.log", maxBytes=1 << 20, backupCount=1)
    handler.handleError = lambda record: None  # type: ignore[method-assign] # noqa: ARG005 - else a traceback
    log.handlers = [handler]
    log.propagate = False
    # Some of its lines go directly to the root logger, which belongs to the user's program.
    java_gateway.logging = log


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Set environment variables for the duration of a `with` block."""
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


def utf8_locale() -> dict[str, str]:
    """Return the environment variables with which the JVM decodes file names as this process does.

    Python decodes them as UTF-8 even in an ASCII locale; Java would see question marks.
    """
    if sys.getfilesystemencoding() == "utf-8" and locale.getencoding().lower() != "utf-8":
        return {"LC_ALL": "C.UTF-8"}
    return {}
