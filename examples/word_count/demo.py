"""Runs the word count as real processes, checks every count it sends, and shows the result (`make demo`).

    wallaroo send --TCP--> machida (word_count.py) --TCP--> wallaroo receive

The counts are compared with those of a plain Python loop over the same text. Exit code 0 means that all are right.
"""

import argparse
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

HERE = Path(__file__).resolve().parent
READY = "Application has successfully initialized."
PUNCTUATION = " !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"

START_SECONDS = 180
STALL_SECONDS = 60
STOP_SECONDS = 60
TAIL_LINES = 15


class Failure(Exception):
    """The demo cannot continue; says why, and which process's last output helps to see it."""

    def __init__(self, reason, child=None):
        super().__init__(reason)
        self.child = child


class Child:
    """A process of the demo, in a process group of its own, its output kept in a file."""

    def __init__(self, name, command, *, folder, cwd=None):
        self.name = name
        self.log = folder / f"{name}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def output(self):
        return self.log.read_text(errors="replace")

    def running(self):
        return self.process.poll() is None

    def expect_running(self):
        if not self.running():
            raise Failure(f"{self.name} ended with exit code {self.process.returncode}.", self)

    def wait_for(self, pattern, seconds):
        """Wait for a line of output and return its match."""
        deadline = time.monotonic() + seconds
        while True:
            alive = self.running()
            if match := re.search(pattern, self.output(), re.MULTILINE):
                return match
            if not alive:
                self.expect_running()
            if time.monotonic() > deadline:
                raise Failure(f"{self.name} was not ready after {seconds} s.", self)
            time.sleep(0.05)

    def stop(self, seconds=STOP_SECONDS):
        """Ask the process to end; it must do so in time, with exit code 0."""
        self.process.terminate()
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.name} did not stop within {seconds} s.", self) from None
        if code != 0:
            raise Failure(f"{self.name} stopped with exit code {code} instead of 0.", self)

    def clean_up(self):
        """Leave nothing running, neither the process nor what it started."""
        if self.running():
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
        self.kill()

    def kill(self):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Received:
    """The receiver's file while it grows: counts its lines, reading each byte once."""

    def __init__(self, path):
        self.path = path
        self.lines = 0
        self._position = 0

    def count(self):
        with self.path.open("rb") as file:
            file.seek(self._position)
            while piece := file.read(1 << 20):
                self.lines += piece.count(b"\n")
                self._position += len(piece)
        return self.lines


class Display:
    """One line that moves on a terminal; elsewhere a plain line for each step."""

    def __init__(self, console):
        self.console = console
        self.moving = console.is_terminal
        self.progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[status]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not self.moving,
        )
        self.task = self.progress.add_task("", total=None, status="")
        self.told = 0

    def step(self, text):
        if self.moving:
            self.progress.update(self.task, description=text)
        else:
            self.console.print(text)

    def counts(self, done, total):
        self.progress.update(self.task, completed=done, total=total, status=f"{done:,} of {total:,} counts")
        quarter = 4 * done // total
        if not self.moving and quarter > self.told:
            self.told = quarter
            self.console.print(f"{done:,} of {total:,} counts received")


def command(name):
    """Return the command that was installed beside this Python."""
    path = Path(sys.executable).parent / name
    if not path.exists():
        raise Failure(f"{name} is not installed beside {sys.executable}: run `make demo` in the project's folder.")
    return str(path)


def count_words(lines):
    """Count the words of a text the plain way."""
    counts = Counter()
    for line in lines:
        for word in line.lower().split(" "):
            if clean_word := word.strip(PUNCTUATION):
                counts[clean_word] += 1
    return counts


def compare(path, expected):
    """Check that each word came out once for each time it went in, counted 1, 2, 3 and so on."""
    seen = Counter()
    with path.open(encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(file, start=1):
            word, arrow, count = line.removesuffix("\n").rpartition(" => ")
            seen[word] += 1
            if not arrow or count != str(seen[word]):
                raise Failure(f"output {number:,} is {line!r}; expected was {word} => {seen[word]}.")
    wrong = sorted(word for word in seen | expected if seen[word] != expected[word])
    if wrong:
        details = [f"  {word!r}: {seen[word]:,} instead of {expected[word]:,}" for word in wrong[:5]]
        raise Failure("\n".join([f"{len(wrong):,} words have a wrong count:", *details]))


def starter(children, folder):
    """Return a function that starts a command, which ends with the others at the latest."""

    def start(name, *arguments, **options):
        child = Child(
            name.replace("wallaroo ", ""),
            [command(name.split()[0]), *arguments],
            folder=folder,
            **options,
        )
        children.callback(child.clean_up)
        return child

    return start


def lines_of(text):
    with text.open(encoding="utf-8", newline="\n") as file:
        return file.read().split("\n")[:-1]


def run(program, text, folder, display):
    """Run everything and return the expected counts, the number of messages and the seconds it took."""
    lines = lines_of(text)
    expected = count_words(lines)
    total = expected.total()
    received = Received(folder / "counts.txt")

    with ExitStack() as children:
        start = starter(children, folder)
        display.step("starting the receiver")
        receiver = start("wallaroo receive", "receive", "127.0.0.1:0", "--output", str(received.path))
        sink = receiver.wait_for(r"^listening on (\S+)$", START_SECONDS)[1]

        display.step("starting the application")
        (folder / "resilience").mkdir()
        machida = start(
            "machida",
            *("--application-module", "word_count", "--in", "127.0.0.1:0", "--out", sink),
            *("--resilience-dir", str(folder / "resilience")),
            cwd=program,
        )
        machida.wait_for(f"^{re.escape(READY)}$", START_SECONDS)
        source = machida.wait_for(r"^ +listening +(\S+) for ", START_SECONDS)[1]

        display.step(f"sending {len(lines):,} lines")
        started = time.monotonic()
        sender = start("wallaroo send", "send", source, "--file", str(text))
        watch(sender, [receiver, machida], received, total, display)
        seconds = time.monotonic() - started

        display.step("stopping")
        machida.stop()
        receiver.stop()

    display.step("comparing")
    compare(received.path, expected)
    return expected, len(lines), seconds


def watch(sender, others, received, total, display):
    """Wait until all counts have come, as long as something moves and nothing breaks."""
    sending = True
    moved = time.monotonic()
    before = -1
    while True:
        for child in others:
            child.expect_running()
        if sending and not sender.running():
            if sender.process.returncode != 0:
                sender.expect_running()
            sending = False
            moved = time.monotonic()
            display.step("counting")
        now = received.count()
        if now != before:
            before, moved = now, time.monotonic()
            display.counts(now, total)
        if not sending and now >= total:
            return
        if time.monotonic() - moved > STALL_SECONDS:
            raise Failure(
                f"nothing came for {STALL_SECONDS} s; {now:,} of {total:,} counts had been received.",
                others[-1],
            )
        time.sleep(0.02)


def show(console, expected, messages, seconds):
    total = expected.total()
    table = Table("Word count", "all counts are right", highlight=False)
    table.columns[1].justify = "right"
    table.add_row("messages in", f"{messages:,}")
    table.add_row("counts out", f"{total:,}")
    table.add_row("distinct words", f"{len(expected):,}")
    table.add_row("time", f"{seconds:.2f} s")
    table.add_row("words per second", f"{total / seconds:,.0f}", end_section=True)
    for word, count in expected.most_common(10):
        table.add_row(word, f"{count:,}")
    console.print(table)
    activate = Path(sys.prefix) / "bin" / "activate"
    if activate.exists():
        console.print(
            f"To use machida and wallaroo yourself, activate their environment: . {shlex.quote(shown_path(activate))}\n"
            "Then follow docs/tutorial.md, or a README in examples/.",
            markup=False,
            soft_wrap=True,
        )


def shown_path(path):
    """Return a path as short as it can be typed here."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def report(console, failure):
    console.print(f"The demo failed: {failure}", markup=False, highlight=False, soft_wrap=True)
    if failure.child:
        lines = failure.child.output().splitlines()[-TAIL_LINES:]
        console.print(
            f"The last output of {failure.child.name}:" if lines else f"{failure.child.name} printed nothing."
        )
        for line in lines:
            console.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)


def first_lines(text, count, folder):
    """Write the first lines of a text to a file of its own."""
    short = folder / "text.txt"
    with text.open("rb") as file:
        short.write_bytes(b"".join(islice(file, count)))
    return short


def main(run=run, program=HERE):
    parser = argparse.ArgumentParser(description="Run the word count on a text and check every count.")
    parser.add_argument("--program", type=Path, default=program, help="the folder with another word_count.py")
    parser.add_argument("--lines", type=int, help="use only so many lines of the text")
    arguments = parser.parse_args()

    # Whoever ends the demo ends its processes too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="wallaroo-demo-") as name:
        folder = Path(name)
        text = HERE / "text.txt"
        if arguments.lines:
            text = first_lines(text, arguments.lines, folder)
        display = Display(console)
        try:
            with display.progress:
                result = run(arguments.program.resolve(), text, folder, display)
        except Failure as failure:
            report(console, failure)
            return 1
        except KeyboardInterrupt:
            console.print("The demo was stopped.")
            return 130
    show(console, *result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
