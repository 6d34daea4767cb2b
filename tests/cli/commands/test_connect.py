"""`wallaroo connect`: its scripts, and those that it writes."""

import signal
import socket
import sys
from pathlib import Path

import pytest
from tests.processes import WALLAROO, Process, run_python, run_to_end

from wallaroo.cli.commands.connect import _SCRIPTS

PACKAGE = Path(__file__).parents[3] / "src" / "wallaroo" / "connect"


def run(*arguments, folder):
    return run_to_end(*WALLAROO, "connect", *arguments, cwd=folder, code=None)


def test_every_script_is_listed():
    scripts = {path.stem.replace("_", "-") for path in PACKAGE.glob("*.py") if "command()" in path.read_text()}
    assert scripts == set(_SCRIPTS)


def test_each_is_at_most_a_page(tmp_path):
    said = run("--help", folder=tmp_path).stdout
    for name in _SCRIPTS:
        assert f"\n  {name} " in said
        assert len((PACKAGE / f"{name.replace('-', '_')}.py").read_text().splitlines()) <= 120, name


@pytest.mark.parametrize(("options", "port"), [((), 7100), (("--sink",), 7200)])
def test_what_is_written(tmp_path, options, port):
    done = run("new", "my_script", *options, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"my_script.py\n\nNext:\n  python my_script.py 127.0.0.1:{port}   ")
    text = (tmp_path / "my_script.py").read_text()
    assert "$" not in text
    assert f"    python my_script.py 127.0.0.1:{port}\n" in text
    done = run("new", "my_script", *options, folder=tmp_path)
    assert (done.returncode, done.stderr) == (
        1,
        "Error: my_script.py exists already. Choose another name, or move it away.\n",
    )


def test_a_name_that_cannot_be_a_module(tmp_path):
    done = run("new", "my-script", folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr == "Error: 'my-script' cannot be the name of a module. Write: wallaroo connect new my_script\n"
    assert list(tmp_path.iterdir()) == []


def test_what_is_written_ends_at_ctrl_c_and_at_a_port_that_is_in_use(tmp_path):
    run("new", "my_source", folder=tmp_path)
    run("new", "my_sink", "--sink", folder=tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        sink = Process([sys.executable, "my_sink.py", address], cwd=tmp_path)
        assert sink.exit_code() == 1
        assert sink.output.startswith(f"Error: The script cannot listen on {address}")
        server.settimeout(60)
        source = Process([sys.executable, "my_source.py", address], cwd=tmp_path)
        connection, _ = server.accept()
        with connection:
            source.ask_to_stop(signal.SIGINT)
            assert source.exit_code() == 0
            assert "Traceback" not in source.output
    for each in (sink, source):
        each.clean_up()


@pytest.mark.parametrize("options", [(), ("--sink",)])
def test_a_written_script_reports_mistakes_in_its_command_line(tmp_path, options):
    run("new", "my_script", *options, folder=tmp_path)
    for arguments, said in (
        ((), "Usage: python my_script.py HOST:PORT\n"),
        (("7100",), "Usage: python my_script.py HOST:PORT\n"),
        (("127.0.0.1:first",), "Error: "),
    ):
        done = run_python("my_script.py", *arguments, cwd=tmp_path, code=1)
        assert done.stderr.startswith(said)
        assert "Traceback" not in done.stderr
