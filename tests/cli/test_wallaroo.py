"""The `wallaroo` command itself."""

import re

from tests.processes import MACHIDA, run_python, run_to_end

from wallaroo._version import __version__


def output_of(process, code=0):
    out, err = process.communicate(timeout=120)
    assert process.returncode == code, err
    return (out + err).decode()


def test_version(wallaroo):
    assert output_of(wallaroo("--version")) == f"wallaroo, version {__version__}\n"


def test_version_of_machida():
    done = run_to_end(*MACHIDA, "--version")
    assert (done.stdout, done.stderr) == (f"machida, version {__version__}\n", "")


def test_help_shows_the_commands_and_examples(wallaroo):
    text = output_of(wallaroo("--help"))
    assert "\n    wallaroo send 127.0.0.1:7010 --file text.txt\n" in text
    assert re.search(r"\n  receive +Print what is received on an address, or from a topic of\n +Kafka\.\n", text)
    assert re.search(r"\n  dead-letters +List, show, replay and delete messages", text)


def test_help_loads_no_command():
    program = (
        "import sys; from wallaroo.cli.wallaroo import main; main(['--help'], standalone_mode=False);"
        "commands = {f'wallaroo.cli.commands.{name}' for name in ('new', 'check', 'send', 'receive', 'connect')};"
        "print({*commands, 'rich', 'pyspark'} & set(sys.modules),"
        "file=sys.stderr)"
    )
    assert run_python("-c", program).stderr == "set()\n"


def test_help_of_each_command(wallaroo):
    for name in ("send", "receive"):
        text = output_of(wallaroo(name, "--help"))
        assert text.startswith(f"Usage: wallaroo {name} [OPTIONS] HOST:PORT | kafka://HOST:PORT/TOPIC\n")
        examples = [line for line in text.splitlines() if line.startswith(f"  wallaroo {name} 127.0.0.1:")]
        assert len(examples) >= 3
        assert f"wallaroo {name} kafka://127.0.0.1:9092/" in text


def test_help_of_the_commands_for_programs(wallaroo):
    assert "\n  wallaroo new my_application\n  cd my_application\n" in output_of(wallaroo("new", "--help"))
    text = output_of(wallaroo("check", "--help"))
    assert "\n  wallaroo check word_count --in 127.0.0.1:7010 --out 127.0.0.1:7002\n" in text
    assert "Without --in and --out" in " ".join(text.split())


def test_a_command_that_does_not_exist(wallaroo):
    assert "No such command 'sned'" in output_of(wallaroo("sned"), code=2)
