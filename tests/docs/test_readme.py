"""Does what the README says: its very commands, in order, and compares everything that comes out."""

import os
import re
import shutil
import signal
import socket
import sys
import sysconfig
import tempfile
import venv
from collections import defaultdict
from pathlib import Path

import psutil
import pytest
from tests.processes import run_to_end
from tools.free_port import free_port

from ..examples.readme import blocks  # noqa: TID252 - tests are not installed
from ..system.harness import PATIENCE, READY, Process  # noqa: TID252

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def commands(block):
    """Return the lines that a reader types."""
    return [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]


def test_the_program_is_the_one_in_the_file():
    assert blocks(README, "python") == [(ROOT / "examples" / "quickstart" / "quickstart.py").read_text()]


@pytest.mark.parametrize("command", ["make demo", "make test"])
def test_make_has_the_targets_of_the_readme(command):
    assert [command] in map(commands, blocks(README, "console"))
    # This very test may run below a make, whose options are not meant for ours.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    planned = run_to_end(*command.split(), "-n", cwd=ROOT, env=environment)
    assert ".venv/bin/python" in planned.stdout


@pytest.fixture
def shell():
    """Return how to run a command as a reader does: in a new environment and with folders of its own for all files."""
    # Paths of sockets must be short, and pytest's own folders are deep.
    folder = Path(tempfile.mkdtemp(prefix="readme-"))
    venv.create(folder / "venv", with_pip=True)
    paths = sysconfig.get_paths(vars={"base": str(folder / "venv"), "platbase": str(folder / "venv")})
    # What pip would fetch from the network is borrowed from the environment that runs the tests.
    borrowed = [path for path in sys.path if Path(path).name in {"site-packages", "dist-packages"}]
    Path(paths["purelib"], "borrowed.pth").write_text("\n".join(borrowed))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {
        "PATH": f"{folder / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "TMPDIR": str(folder),
        "XDG_STATE_HOME": str(folder / "state"),
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip takes the value of this one literally: no isolation.
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    started = []

    def run(lines):
        script = "\n".join(lines)
        started.append(Process(["bash", "-ec", script], cwd=ROOT, env=environment, start_new_session=True))
        return started[-1]

    yield run
    for process in started:
        process.clean_up()
    shutil.rmtree(folder)


def with_free_ports(text):
    """Return the text as it is, or with other ports where another program of this machine has taken them."""
    for port in sorted(set(re.findall(r"127\.0\.0\.1:(\d+)", text))):
        try:
            socket.create_server(("127.0.0.1", int(port))).close()
        except OSError:
            text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{free_port()}")
    return text


def press_ctrl_c(process):
    """Send what a terminal sends, to the command and to all that it has started; all of it must end cleanly."""
    family = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGINT)
    assert process.exit_code() == 0, process.output
    _, alive = psutil.wait_procs(family, timeout=PATIENCE)
    assert not alive, alive


class Means:
    """What has to come out."""

    def __init__(self):
        self._readings = defaultdict(list)
        self.answers = defaultdict(list)
        """For each city its answers so far."""

    def take(self, reading):
        city, degrees = reading.split()
        self._readings[city].append(float(degrees))
        mean = sum(self._readings[city]) / len(self._readings[city])
        self.answers[city].append(f"{city} {mean:.1f}")

    @property
    def size(self):
        return sum(len(answer) + 1 for answers in self.answers.values() for answer in answers)


def by_city(lines):
    found = defaultdict(list)
    for line in lines:
        found[line.split()[0]].append(line)
    return found


@pytest.mark.timeout(900)
def test_install_it_run_it_in_three_terminals_and_resume(shell):
    text = with_free_ports("".join(f"{block}```\n" for block in blocks(README, "console")))
    install, receive, run, send = (block for block in text.split("```\n") if block and not block.startswith("$ make "))
    installing = shell(commands(install))
    assert installing.exit_code() == 0, installing.output

    receiver = shell(commands(receive))
    listening, *shown = [line for line in receive.splitlines() if not line.startswith("$ ")]
    receiver.wait_until(lambda: receiver.output == f"{listening}\n", "listening")

    readings = re.search(r"printf '(.*)' \|", send)[1].replace(r"\n", "\n").splitlines()
    expected = Means()
    for start in (1, 2):
        application = shell(commands(run))
        application.wait_until(lambda application=application: READY in application.output, "being ready")
        sending = shell(commands(send))
        assert sending.exit_code() == 0, sending.output
        for reading in readings:
            expected.take(reading)
        receiver.wait_until(lambda: len(receiver.output) >= len(listening) + 1 + expected.size, "the answers")
        press_ctrl_c(application)
        assert by_city(receiver.output.splitlines()[1:]) == expected.answers
        if start == 1:
            assert by_city(shown) == expected.answers

    press_ctrl_c(receiver)
    assert "through 2 connections" in receiver.output
