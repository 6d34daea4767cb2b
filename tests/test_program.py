"""Every process builds the application itself: with what the program sets, and the same as machida has."""

import json
import os
import shutil
import zipfile
from pathlib import Path

import pytest
from tests.processes import run_python

import wallaroo

SOURCES = str(Path(wallaroo.__file__).parents[1])

START = """
import os, sys, threading
import wallaroo

@wallaroo.decoder
def decode(bs):
    return bs.decode()

@wallaroo.encoder
def encode(data):
    return data

@wallaroo.partition
def key(data):
    return data

@wallaroo.state_computation("count")
def count(data, state):
    return data, True

@wallaroo.computation("copy")
def copy(data):
    return data

def start(ab, name="p"):
    return ab.new_pipeline(name, wallaroo.TCPSourceConfig("127.0.0.1", "7010", decode))

def chained():
    return wallaroo.source("p", wallaroo.TCPSourceConfig("127.0.0.1", "7010", decode))

def sink(port="7002", name=None):
    return wallaroo.TCPSinkConfig("127.0.0.1", port, encode, name=name)

elsewhere = "ELSEWHERE" in os.environ

def application_setup(args):
    ab = wallaroo.ApplicationBuilder("Test")
"""
END = """
    return ab.to_sink(sink()).build()
"""
FIRST = """
import json, sys
from pathlib import Path
from wallaroo.program import Program
sys.argv[:] = ["machida", "--option"]
program = Program("app", "application_setup", ("--option",))
application = program.setup()(list(program.arguments))
Path("program.json").write_text(json.dumps(program.instructions(application)))
"""
SECOND = """
import json, sys
from pathlib import Path
from wallaroo.errors import ApplicationError
from wallaroo.program import build
sys.argv[:] = ["a worker"]
try:
    application, module = build(json.loads(Path("program.json").read_text()), "a worker")
except ApplicationError as error:
    print(error)
else:
    print(repr(application), module.__name__, sys.argv, getattr(module, "seen", None))
"""


@pytest.fixture
def built_twice(tmp_path):
    """Build a program in one process, as machida does, and then in another; return what that says."""
    code, other = tmp_path / "code", tmp_path / "other"
    code.mkdir()
    other.mkdir()

    def run(body, **variables):
        (code / "app.py").write_text(START + body)
        for program, path, more in ((FIRST, [code, SOURCES], {}), (SECOND, [SOURCES], variables)):
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), **more}
            done = run_python("-P", "-c", program, cwd=other, env=environment)
        return done.stdout

    return run


def test_what_the_setup_sets_and_the_command_line_are_there(built_twice):
    body = """
    global seen
    seen = [args, threading.Lock(), open(__file__)] and args
    start(ab).to(copy)
"""
    assert built_twice(body + END) == "<Application 'Test': 'p'> app ['machida', '--option'] ['--option']\n"


def test_keys_are_compared_regardless_of_order_and_repr(built_twice):
    body = """
    keys = {"a", ("b", 1), frozenset("cdefg"), object(), b"h", 2.5, None}
    start(ab).to_state_partition(count, dict, "s", key, list(keys))
"""
    assert built_twice(body + END, ELSEWHERE="1").startswith("<Application 'Test': 'p'>")


DIFFERENCES = {
    "start(ab).to(copy)\n    if not elsewhere: ab.to(copy)": "gave the pipeline 'p' 1 step, and 2 in machida",
    "start(ab).to(copy)\n    if elsewhere: ab.to(copy)": "gave the pipeline 'p' 2 steps, and 1 in machida",
    "start(ab, 'q' if elsewhere else 'p')": "made the pipelines 'q', and 'p' in machida",
    "start(ab).to_state_partition(count, dict, 's', key, [*'ab'] + [*'c'] * elsewhere)": (
        "gave the pipeline 'p' as step 1 the state computation 'count' on the state 's' (3 keys with the checksum "
    ),
    "start(ab).to_state_partition(count, dict, 's', key, [*'ab', 'd' if elsewhere else 'c'])": (
        "on the state 's' (3 keys with the checksum 5f7c582f), and the state computation 'count' on the state 's'"
    ),
    "start(ab)\n    if elsewhere: return None": "returned NoneType, and an application in machida",
    "start(ab)\n    if elsewhere: return ab.to_sinks([sink(), sink('1')]).build()": "2 sinks, and 1 in machida",
    "start(ab)\n    return ab.to_sinks([sink(name='there' if elsewhere else 'here'), sink('1')]).build()": (
        "called the sinks of the pipeline 'p' 'there', (no name), and 'here', (no name) in machida"
    ),
    "start(ab)\n    return ab.to_sinks([sink(name='a')], choose=(lambda _: 'a') if elsewhere else None).build()": (
        "joined the steps and sinks of the pipeline 'p' in another way than in machida"
    ),
    "base, end = chained(), chained().to(copy).to(copy).to_sink(sink())\n"
    "    if elsewhere: end = base.to(copy).merge(base.to(copy)).to_sink(sink())\n"
    "    return wallaroo.build_application('Test', end)": (
        "joined the steps and sinks of the pipeline 'p' in another way than in machida"
    ),
    "if elsewhere: ab = wallaroo.ApplicationBuilder('Other')\n    start(ab)": "called the application 'Other', and",
}


@pytest.mark.parametrize(("body", "words"), DIFFERENCES.items())
def test_another_topology_is_reported_with_what_differs(built_twice, body, words):
    said = built_twice(f"    {body}{END}", ELSEWHERE="1")
    assert said.startswith("In a worker, application_setup ")
    assert words in said
    assert ": it must give the same each time. Every process of the run calls it" in said


@pytest.mark.parametrize("way", ["raise KeyError('model')", "sys.exit(2)", "open('model.json')"])
def test_a_setup_that_fails_is_named(built_twice, way):
    said = built_twice(f"    if elsewhere: {way}\n    start(ab){END}", ELSEWHERE="1")
    assert said.startswith("application_setup failed in a worker, though not in machida:\nTraceback")
    assert f"if elsewhere: {way}" in said
    assert "calls its application_setup, so that has to work several times" in said
    assert ("; the current folder there is " in said) == ("open" in way)


def test_a_module_that_cannot_be_imported_is_named(built_twice):
    said = built_twice(f"    start(ab){END}\nif elsewhere: import no_such_module", ELSEWHERE="1")
    assert said.startswith("Importing app failed in a worker, though not in machida:\n")
    assert "No module named 'no_such_module'" in said


def test_a_module_is_found_in_a_bundle_where_its_folder_does_not_exist(built_twice, tmp_path):
    built_twice(f"    start(ab){END}")
    code, other = tmp_path / "code", tmp_path / "other"
    assert str(code) in json.loads((other / "program.json").read_text())["path"]
    with zipfile.ZipFile(tmp_path / "modules.zip", "w") as bundle:
        bundle.write(code / "app.py", "app.py")
    shutil.rmtree(code)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "modules.zip"), SOURCES])}
    done = run_python("-P", "-c", SECOND, cwd=other, env=environment)
    assert done.stdout.startswith("<Application 'Test': 'p'> app ")
