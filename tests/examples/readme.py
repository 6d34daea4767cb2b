"""Does what an example's README says: its commands unchanged, in terminals, in a copy of the example's folder.

Commands are the lines that begin with `$` in fenced `console` blocks; fenced `text` blocks show what one sees.
Only the port numbers are replaced, in every command alike: by free ones, or those of servers that a test has started.
"""

import os
import re
import shutil
import signal
import sys
import time
from pathlib import Path

from tools.free_port import free_port

from ..processes import PATIENCE, Process, run_to_end  # noqa: TID252

READY = "Application has successfully initialized."
ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def blocks(readme, language):
    """Return the contents of a README's fenced blocks in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)


def commands(readme):
    """Return the commands of a README, in order."""
    return [line[2:] for block in blocks(readme, "console") for line in block.splitlines() if line.startswith("$ ")]


def with_free_ports(texts, servers=()):
    """Return the texts with each port of the loopback interface replaced by a free one, the same in all of them.

    `servers` has those that others listen on instead, by the port in the texts.
    """
    new = {str(port): other for port, other in dict(servers).items()}
    ports = sorted({port for text in texts for port in re.findall(r"127\.0\.0\.1:(\d+)", text)} - set(new))
    free = set()
    while len(free) < len(ports):
        free.add(free_port())
    new |= dict(zip(ports, free, strict=True))
    return [re.sub(r"127\.0\.0\.1:(\d+)", lambda found: f"127.0.0.1:{new[found[1]]}", text) for text in texts]


def environment(scratch):
    """Return the environment of a reader whose virtual environment is active, with folders of its own for all files."""
    bin_folder = Path(sys.executable).parent
    if not (bin_folder / "machida").exists():
        bin_folder = _commands_from_sources(scratch / "bin")
    path = os.pathsep.join([str(bin_folder), str(Path(sys.executable).parent), os.environ["PATH"]])
    python_path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    folders = {"TMPDIR": str(scratch), "XDG_STATE_HOME": str(scratch / "state")}
    return {**os.environ, "PATH": path, "PYTHONPATH": python_path, **folders}


def _commands_from_sources(folder):
    """Make the commands that an installation would make, where there is none."""
    folder.mkdir(exist_ok=True)
    for name in ("machida", "wallaroo"):
        script = folder / name
        script.write_text(f"#!{sys.executable}\nfrom wallaroo.cli.{name} import main\nmain()\n")
        script.chmod(0o755)
    return folder


class Terminal(Process):
    """A command that keeps running in its own terminal, until Ctrl-C."""

    def __init__(self, command, folder, env, log):
        self.command = command
        self._log = log
        with log.open("wb") as stdout:
            super().__init__(["bash", "-c", command], env, stdout=stdout, cwd=folder, start_new_session=True)

    @property
    def stdout(self):
        """Return what the command has written to its standard output so far."""
        return self._log.read_bytes()

    @property
    def screen(self):
        """Return everything that the command has written so far."""
        return self.stdout.decode(errors="replace") + self.output

    def expect_running(self):
        """Fail if the command has ended."""
        assert self.is_running, f"{self.command} ended with {self.exit_code()}:\n{self.screen}"

    def ctrl_c(self):
        """End the command as a reader would; the key reaches everything that runs in the terminal."""
        self.expect_running()
        self.note_family()
        os.killpg(self.pid, signal.SIGINT)
        code = self.exit_code()
        assert code == 0, f"{self.command} was stopped and ended with {code}:\n{self.screen}"
        self.nothing_left()


class Walkthrough:
    """Follows one README, command by command; each call names the beginning of the command that comes next."""

    def __init__(self, example, scratch, servers=()):
        self.original = EXAMPLES / example
        self.folder = scratch / example
        generated = (EXAMPLES / ".gitignore").read_text().split()
        shutil.copytree(self.original, self.folder, ignore=shutil.ignore_patterns("__pycache__", *generated))
        readme = (self.original / "README.md").read_text()
        self.shown = [line for block in blocks(readme, "text") for line in block.splitlines() if line != "..."]
        self._commands = with_free_ports(commands(readme), servers)
        self._position = 0
        self._scratch = scratch
        self._environment = environment(scratch)
        self._terminals = []

    def _next(self, beginning):
        assert self._position < len(self._commands), f"the README has no more commands, none for {beginning!r}"
        command = self._commands[self._position]
        assert command.startswith(beginning), f"the next command is {command!r}, not {beginning!r}"
        self._position += 1
        return command

    def start(self, beginning, ready="listening on"):
        """Run the next command in a new terminal, and wait until it says that it is ready."""
        log = self._scratch / f"terminal-{self._position + 1}"
        terminal = Terminal(self._next(beginning), self.folder, self._environment, log)
        self._terminals.append(terminal)
        ready = READY if beginning == "machida" else ready
        self.wait_until(lambda: ready in terminal.screen, f"{beginning} being ready")
        return terminal

    def run_again(self, beginning):
        """Run the command that came last once more."""
        self._position -= 1
        return self.run(beginning)

    def run(self, beginning):
        """Run the next command to its end and return its standard output."""
        command = self._next(beginning)
        return run_to_end("bash", "-c", command, cwd=self.folder, env=self._environment).stdout

    def make_data_again(self, beginning, pattern):
        """Run the next command, which must make the example's data files exactly as they are."""
        names = sorted(path.name for path in self.original.glob(pattern))
        assert names
        for name in names:
            (self.folder / name).unlink()
        self.run(beginning)
        assert sorted(path.name for path in self.folder.glob(pattern)) == names
        for name in names:
            assert (self.folder / name).read_bytes() == (self.original / name).read_bytes(), name

    def end(self, terminal):
        """End what runs in a terminal."""
        self._terminals.remove(terminal)
        terminal.ctrl_c()
        terminal.clean_up()

    def wait_until(self, condition, what):
        """Wait until `condition()` is true; fail at once if anything that should run has ended."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            for terminal in self._terminals:
                terminal.expect_running()
            screens = "\n".join(terminal.screen[-3000:] for terminal in self._terminals)
            assert time.monotonic() < deadline, f"{what} did not happen:\n{screens}"
            time.sleep(0.02)

    def wait_for_lines(self, terminal, count):
        """Wait until a terminal's command has printed so many lines."""
        self.wait_until(lambda: terminal.stdout.count(b"\n") >= count, f"line {count} of {terminal.command}")

    def finish(self):
        """End what runs, the receiver last; no command may be left over, and there may be no dead letter."""
        left = self._commands[self._position :]
        assert not left, f"commands of the README that were not run: {left}"
        for terminal in reversed(self._terminals):
            terminal.ctrl_c()
        [home] = (path.parent for path in self._scratch.rglob("layout.json"))
        assert not (home / "dead-letters.jsonl").exists(), (home / "dead-letters.jsonl").read_text()

    def clean_up(self):
        """Leave nothing running."""
        for terminal in reversed(self._terminals):
            terminal.clean_up()


def expect_shown(shown, seen):
    """Check that each line that a README shows is one that was seen, and so often."""
    seen = list(seen)
    for line in shown:
        assert line in seen, f"the README shows {line!r}"
        seen.remove(line)
