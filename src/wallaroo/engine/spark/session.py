"""The Spark session: its settings, each with its reason, and its JVM, whose chatter goes to a file."""

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
from wallaroo.engine.directory.safe_paths import plain_path
from wallaroo.engine.spark.class_data_archive import ClassDataArchive
from wallaroo.engine.spark.error_messages import cause, known_words, last_words, without_java
from wallaroo.engine.spark.jvm_classes import load_classes
from wallaroo.engine.spark.spark_home import spark_home, usable_cache
from wallaroo.errors import SparkStartError
from wallaroo.files import write_atomically
from wallaroo.notices import Notice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from wallaroo.engine.spark.gateway import Jvm


DRIVER_MEMORY = "1g"
_STREAMING = "org.apache.spark.sql.execution.streaming"

_SETTINGS = {
    # A Python task over TCP stalls for 40 ms where the two sides wait for each other's acknowledgements.
    "spark.python.unix.domain.socket.enabled": "true",
    # What earlier lives of the query have left goes with its objects; a quiet JVM would keep these for half an hour.
    "spark.cleaner.periodicGC.interval": "2min",
    # A query that is asked to stop does so, or is left behind.
    "spark.sql.streaming.stopTimeout": "30s",
    # No process is started to read links, and no second file is written beside each one.
    "spark.sql.streaming.checkpointFileManagerClass": (
        f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # What Spark writes belongs to its owner alone.
    "spark.hadoop.fs.permissions.umask-mode": "077",
    # The plan is always the same; there is nothing to adapt, and few numbers worth keeping.
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
    # Otherwise the stages differ in the environment of their workers, and each has workers of its own.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
}

_MERGED = {"spark.driver.extraJavaOptions"}
"""Settings to which a user adds, where all others are the user's to replace."""

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
    """What a user may say about Spark."""

    master: str = "local[*]"
    conf: dict[str, str] = field(default_factory=dict)
    log_level: str = "warn"

    @property
    def local(self) -> bool:
        """Tell whether Spark runs inside this one machine's driver."""
        return self.master.startswith("local")


@contextmanager
def spark_session(  # noqa: PLR0913, PLR0917 - the parts of a session
    name: str, home: Home, options: SparkOptions, java: str, temporary: Path, notice: Notice
) -> Iterator[SparkSession]:
    """Run Spark for an application, on the Java in `java`, for the time of a `with` block.

    `temporary` is a folder for sockets and other things that are not needed afterwards.
    """
    import pyspark  # noqa: PLC0415 - heavy: only a run needs it

    installed = Path(pyspark.__file__).parent
    cache = usable_cache(notice)
    # Who has set SPARK_HOME has a Spark of their own; the machines of a cluster have theirs.
    chosen = os.environ.get("SPARK_HOME")
    spark = Path(chosen or (spark_home(installed, cache, notice) if options.local else installed))
    archive = ClassDataArchive(java, str(spark), pyspark.__version__, cache)
    java_options = f"-Djava.io.tmpdir={temporary} {archive.java_options()}"
    if options.local:
        # Python does the work, and the JVM's best compiler would take a core from it for minutes: without it a start
        # takes two thirds of the time, and the first minute is as fast as the tenth.
        # The JVM would then also reserve little room for compiled code, and do much of it again when that is full.
        java_options = f"-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m {java_options}"
    settings = _all_settings(name, home, options, java_options, temporary)
    if options.local:
        settings.setdefault("spark.python.unix.domain.socket.dir", str(temporary))
    with ExitStack() as running:
        found = {"JAVA_HOME": java, "SPARK_HOME": str(plain_path(spark, temporary / "spark"))}
        # Otherwise Spark's Python processes would look for modules in the current folder first.
        with environment(**found, PYTHONSAFEPATH="1", **names_understood()):
            jvm = running.enter_context(_jvm(settings, home, temporary, guarded=options.local))
            session = _session(settings, home, jvm, cache, local=options.local)
        with _stopped_in_order(session, jvm, archive):
            yield session


@contextmanager
def _jvm(settings: dict[str, str], home: Home, temporary: Path, *, guarded: bool) -> Iterator[Jvm]:
    """Have Spark's JVM for the time of a `with` block."""
    from wallaroo.engine.spark.gateway import Jvm  # noqa: PLC0415 - heavy: only a run needs it

    # The JVM takes seconds to come up; what the driver needs later is imported meanwhile.
    threading.Thread(target=_import_all, args=["pandas", "wallaroo.engine.spark.query"], daemon=True).start()
    _log_bridge_to_file(home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYTHONHASHSEED"] = "0"  # Keys of users' own classes must hash alike in every worker.
    assert home.lock is not None
    chatter = _chatter_file(home)
    try:
        jvm = Jvm(settings, temporary, chatter, home.lock, guarded=guarded)
    finally:
        os.close(chatter)
    try:
        yield jvm
    finally:
        jvm.kill()


def _session(settings: dict[str, str], home: Home, jvm: Jvm, cache: Path | None, *, local: bool) -> SparkSession:
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    from wallaroo.engine.spark.gateway import Bridge  # noqa: PLC0415

    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        jvm.wait_until_up()
        bridge = Bridge(jvm)
        classes = load_classes(bridge, cache, jvm.folder)
        context = SparkContext(conf=conf, gateway=bridge)
        if classes and not local:
            # Executors get it with their first task.
            context._jsc.addJar(classes.as_uri())  # noqa: SLF001 - the only way to it
        # It would print a traceback when the JVM goes away; that is noticed, and told, elsewhere.
        context._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign] # noqa: SLF001
    except Exception as error:
        raise SparkStartError(
            f"Spark could not be started: {_why(home, error).rstrip('.')}.\n"
            f"All that it said is in {home.spark_log.parent}."
        ) from error
    finally:
        # Spark would cancel the query at a Ctrl-C, which is to finish the blocks under way.
        signal.signal(signal.SIGINT, interrupt)
    return SparkSession(context)


def _import_all(*modules: str) -> None:
    for module in modules:
        import_module(module)


@contextmanager
def _stopped_in_order(session: SparkSession, jvm: Jvm, archive: ClassDataArchive) -> Iterator[None]:
    """Stop Spark after a `with` block, unless that was interrupted: then everything just ends."""
    try:
        yield
    finally:
        if not isinstance(sys.exc_info()[1], KeyboardInterrupt):
            bridge: Any = session.sparkContext._gateway  # noqa: SLF001 - the only way to it
            # What fails here fails because the JVM is gone already.
            with suppress(Exception), warnings.catch_warnings(action="ignore"):
                session.stop()
            with suppress(Exception):
                bridge.shutdown()
            if jvm.stop():
                archive.keep()
            _forget_session()


def _forget_session() -> None:
    """Let there be another session in this process: one whose JVM has died does not know that it has ended."""
    from pyspark import SparkContext  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
    SparkSession._instantiatedSession = SparkSession._activeSession = None  # noqa: SLF001


def _all_settings(name: str, home: Home, options: SparkOptions, java_options: str, temporary: Path) -> dict[str, str]:
    """Return every setting: ours, those of this run, and, above all, the user's."""
    log4j = temporary / "log4j2.properties"
    log = home.for_spark / home.spark_log.relative_to(home.path)
    write_atomically(log4j, _LOG4J.format(path=log, level=options.log_level))
    shutil.rmtree(home.path / "scratch", ignore_errors=True)  # A run that was killed had no time to tidy up.
    scratch = _scratch(home, temporary)
    settings = _SETTINGS | {
        "spark.app.name": name,
        "spark.master": options.master,
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.driver.memory": DRIVER_MEMORY,
        # A JVM that has run out of memory may go on without some of its threads, and wait for them for ever.
        "spark.driver.extraJavaOptions": (
            f"-Dlog4j2.configurationFile={log4j.as_uri()} -XX:+ExitOnOutOfMemoryError {java_options}"
        ),
        "spark.executorEnv.PYTHONHASHSEED": "0",
        "spark.executorEnv.PYTHONSAFEPATH": "1",
    }
    if options.local or _is_loopback(options.master):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if options.local:
        # Spark's ports are for itself: it makes up a secret that nobody else knows.
        settings["spark.authenticate"] = "true"
    if options.master == "yarn":
        settings["spark.yarn.isPython"] = "true"  # It would be told so by PySpark's own way to start.
    if path := os.environ.get("PYTHONPATH"):
        settings["spark.executorEnv.PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, path.split(os.pathsep)))
    if extra := options.conf.get("spark.driver.extraJavaOptions"):
        settings["spark.driver.extraJavaOptions"] += f" {extra}"
    return settings | {key: value for key, value in options.conf.items() if key not in _MERGED}


def _scratch(home: Home, temporary: Path) -> Path:
    """Return the folder for what Spark need not keep: in the application's directory, whose disk has room for it.

    Spark finds out where links in its path lead to, and with some names it cannot work.
    """
    fits = re.fullmatch(r"[ -+\--~]{1,1024}", os.path.realpath(home.path))
    return (home.for_spark if fits else temporary) / "scratch"


def _is_loopback(master: str) -> bool:
    return urlsplit(master).hostname in {"127.0.0.1", "localhost", "::1"}


def _chatter_file(home: Home) -> int:
    """Open the file for what the JVM and the workers write past the logger, started anew at each run."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(home.spark_chatter, flags, 0o600)


def _why(home: Home, error: Exception) -> str:
    """Return in words why Spark did not start: what its JVM said, or what came back from it."""
    from py4j.protocol import Py4JNetworkError  # noqa: PLC0415

    from wallaroo.engine.spark.gateway import JvmExitedError  # noqa: PLC0415

    said = home.spark_chatter.read_text(errors="replace")
    if words := known_words(said):
        return words
    if isinstance(error, Py4JNetworkError):
        return last_words(home)
    if not isinstance(error, JvmExitedError):
        return cause(str(error))
    # Where there is no answer, the script that had asked for the JVM's command line stumbles over that, too.
    lines = [line.strip() for line in said.splitlines() if line.strip() and "/bin/spark-class: line" not in line]
    telling = [line for line in lines if re.search(r"Exception|Error|Could not|Invalid", line)]
    if not lines:
        return "its process ended without a word. Perhaps the machine has too little memory"
    return without_java((telling or lines)[0].removeprefix('Exception in thread "main" ').removeprefix("Error: "))


def _log_bridge_to_file(home: Home) -> None:
    """Have the Python side of Spark's bridge log to a file: it would put tracebacks on the screen."""
    from py4j import java_gateway  # noqa: PLC0415

    log = logging.getLogger("py4j")
    handler = RotatingFileHandler(home.spark_log.parent / "driver.log", maxBytes=1 << 20, backupCount=1)
    handler.handleError = lambda record: None  # type: ignore[method-assign] # noqa: ARG005 - else a traceback
    log.handlers = [handler]
    log.propagate = False
    # Some of its lines go past its own logger to that of the whole program, which is the user's.
    java_gateway.logging = log


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
