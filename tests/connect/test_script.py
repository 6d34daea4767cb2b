"""What the scripts of `wallaroo connect` share: options, streams, and mistakes, which are told in a line."""

import socket

import pytest
from tests.processes import run_python

from wallaroo.cli.commands.connect import _SCRIPTS

STREAMS = """
import wallaroo.experimental

class Nothing:
    def __init__(self, host, port):
        pass

    def extension(self):
        return None

number = 5
"""


@pytest.fixture
def run(tmp_path):
    """Run a script to its end, in a folder with a module of streams, and return its exit code and what it says."""
    (tmp_path / "streams.py").write_text(STREAMS)

    def start(*arguments, before=""):
        program = f"{before}\nfrom wallaroo.cli.wallaroo import main\nmain()"
        done = run_python("-c", program, "connect", *arguments, cwd=tmp_path, code=None)
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout + done.stderr

    return start


@pytest.mark.parametrize("name", _SCRIPTS)
def test_each_script_has_a_help_also_as_a_module_and_without_the_client_of_redis(name, run):
    code, said = run(name, "--help", before="import sys; sys.modules.update(redis=None, confluent_kafka=None)")
    assert code == 0, said
    assert f"wallaroo connect {name} 127.0.0.1:7" in said
    assert "--application-module" in said
    module = f"wallaroo.connect.{name.replace('-', '_')}"
    done = run_python("-m", module, "--help")
    assert done.stdout.splitlines()[1:] == said.splitlines()[1:]


@pytest.mark.parametrize("name", [name for name in _SCRIPTS if name.startswith("redis")])
def test_without_the_client_of_redis_a_sentence_says_what_to_install(name, run):
    option = "--channel" if name == "redis-subscriber" else "--key"
    code, said = run(name, "127.0.0.1:1", option, "k", before="import sys; sys.modules['redis'] = None")
    assert code == 1
    assert said == "Error: This needs the client of Redis: install it with pip install 'wallaroo-spark[redis]'.\n"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("udp-source", "7100"), 2, "'7100' is not an address: write host:port, such as 127.0.0.1:7010"),
        (("udp-sink", "127.0.0.1:0"), 2, "Missing option '--to'"),
        (("redis-list", "127.0.0.1:1", "--key", "k", "--redis", "127.0.0.1"), 2, "Redis URL must specify"),
        (("kafka-consumer", "127.0.0.1:1", "--topic", "text"), 2, "is not a topic: write kafka://127.0.0.1:9092/words"),
        (("udp-source", "127.0.0.1:1", "--stream", "Text"), 2, "--application-module and --stream go together"),
        (
            ("udp-source", "127.0.0.1:1", "--application-module", "nowhere", "--stream", "Text"),
            1,
            "No module named 'nowhere' in the current folder or PYTHONPATH.",
        ),
        (
            ("udp-source", "127.0.0.1:1", "--application-module", "streams", "--stream", "number"),
            1,
            "The module 'streams' has no 'number', as a class with extension(), or an encoder or decoder.",
        ),
        (
            ("udp-source", "127.0.0.1:1", "--application-module", "streams", "--stream", "Nothing"),
            1,
            "Nothing.extension() must return a SourceExtension; got None.",
        ),
        (("unknown", "127.0.0.1:1"), 2, "No such command 'unknown'"),
    ],
)
def test_mistakes_are_told_in_a_line(run, arguments, code, said):
    found, text = run(*arguments)
    assert said in text
    assert found == code


def test_an_address_that_is_in_use(run):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code, said = run("udp-sink", f"127.0.0.1:{port}", "--to", "127.0.0.1:9")
    assert code == 1
    assert said.startswith(f"Error: The script cannot listen on 127.0.0.1:{port}: ")
