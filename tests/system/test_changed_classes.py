"""A class of states that changes from version to version: what is reported, and that the states are kept."""

import re
import shutil
import socket

import pytest
from click.testing import CliRunner

from wallaroo.cli.wallaroo import main

from .harness import APPS, PATIENCE, READY, Machida, Receiver, dead_letters


class Story:
    """An application that is changed and started again, version by version."""

    def __init__(self, folder):
        self.home = folder / "home"
        self.program = folder / "versions.py"
        self.sink = Receiver()
        self.runs = []

    def start(self, version):
        text = (APPS / "versions.py").read_text()
        self.program.write_text(text.replace("VERSION = 1\n", f"VERSION = {version}\n"))
        shutil.rmtree(self.program.with_name("__pycache__"), ignore_errors=True)
        arguments = ["--in", "127.0.0.1:0", "--out", self.sink.address, "--resilience-dir", self.home]
        run = Machida("--application-module", "versions", *arguments, folder=self.program.parent)
        self.runs.append(run)
        return run

    def send(self, lines):
        """Send as `nc` does, with no more than an end of the stream behind the last word."""
        run = self.runs[-1]
        with socket.create_connection(run.address("words"), timeout=PATIENCE) as connection:
            connection.sendall("\n".join(lines).encode())
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1) == b""

    def outputs(self, *expected):
        """Wait until these are the outputs, in any order, and nothing else; then forget them."""
        run = self.runs[-1]
        run.wait_until(lambda: self.sink.size >= sum(len(line) + 1 for line in expected), "the outputs")
        found = b"".join(self.sink.connections).decode().splitlines()
        assert sorted(found) == sorted(expected), run.output
        for connection in self.sink.connections:
            connection.clear()

    def clean_up(self):
        for run in self.runs:
            run.clean_up()
        self.sink.clean_up()


@pytest.mark.timeout(900)
def test_a_renamed_class_and_a_new_attribute(tmp_path):
    story = Story(tmp_path)
    try:
        run = story.start(1).wait_until_ready()
        story.send(["a", "b", "a", "z", "y"])
        story.outputs("a => 1", "b => 1", "a => 2", "z => 1", "y => 1")
        run.stop()
        told = re.findall(
            r"State 'totals': made (\d) states? for keys that were not listed, such as '[yz]'", run.output
        )
        assert told[-1] == "2", run.output

        # The class has another name: that is found before the application is ready.
        run = story.start(2)
        assert run.exit_code() == 3, run.output
        assert READY not in run.output
        assert "Error: State 'totals' was saved with objects of the class versions.Totals, which no" in run.output
        assert 'write wallaroo.renamed("versions.Totals", NewName) below the class' in run.output
        assert "Traceback" not in run.output
        run.nothing_left()

        run = story.start(3).wait_until_ready()
        story.send(["a"])
        story.outputs("a => 3")
        run.stop()

        # States that were saved lack what new ones have.
        run = story.start(4).wait_until_ready()
        story.send(["a", "b", "new"])
        run.wait_until(lambda: len(dead_letters(story.home)) == 2, "the dead letters")
        story.outputs("new => 1")
        run.stop()
        for letter in dead_letters(story.home):
            assert "A new WordTotals has the attribute 'last', and this one does not" in letter["error"]
        assert "@wallaroo.state_upgrade(WordTotals) above it. Then replay the dead letters." in run.output

        done = CliRunner().invoke(main, ["dead-letters", "replay", "--all", "--resilience-dir", str(story.home)])
        assert done.exit_code == 0, done.output
        run = story.start(5).wait_until_ready()
        story.outputs("a => 4", "b => 2")
        story.send(["z", "new"])
        story.outputs("z => 2", "new => 2")
        run.stop()
    finally:
        story.clean_up()
