"""A Spark cluster on this machine: a master and workers as processes of their own."""

import re
import sys
from pathlib import Path

import psutil
import pyspark

from wallaroo.engine.spark.java import java_home

from .harness import Process, environment

SPARK = Path(pyspark.__file__).parent


class Cluster:
    """A master and some workers with so many cores each, which keep their files in `folder`."""

    def __init__(self, folder, workers=2, cores=1):
        self._folder = folder
        self._cores = str(cores)
        self._settings = {
            "JAVA_HOME": java_home(folder),
            "SPARK_HOME": str(SPARK),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_PUBLIC_DNS": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
        }
        self._started = []
        try:
            self._start_all(workers)
        except BaseException:
            self.clean_up()
            raise

    def _start_all(self, workers):
        master = self._start("master.Master", "--host", "127.0.0.1", "--port", "0")
        address = re.compile(r"Starting Spark master at (spark://127\.0\.0\.1:[1-9]\d*)")
        master.wait_until(lambda: address.search(master.output), "the master")
        self.url = address.search(master.output)[1]
        for number in range(workers):
            place = ["--host", "127.0.0.1", "--work-dir", self._folder / f"worker {number}"]
            self._start("worker.Worker", self.url, "--cores", self._cores, "--memory", "1g", *place)
        for worker in self._started[1:]:
            worker.wait_until(lambda worker=worker: "Successfully registered" in worker.output, "a worker")

    def _start(self, name, *arguments):
        command = [SPARK / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", "--webui-port", "0", *arguments]
        self._started.append(Process(command, cwd=self._folder, env=environment(**self._settings)))
        return self._started[-1]

    def executors(self):
        """Return the processes that run tasks for applications: JVMs that the workers have started."""
        found = [child for worker in self._started[1:] for child in psutil.Process(worker.pid).children(recursive=True)]
        return [process for process in found if process.name() == "java"]

    def clean_up(self):
        """End all of it."""
        for process in reversed(self._started):
            process.clean_up()
