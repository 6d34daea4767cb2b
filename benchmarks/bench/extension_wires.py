"""Scripts with extensions, in processes of their own, which do what a benchmark tells them."""

from __future__ import annotations

import time
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench.wires import Helper
from wallaroo.experimental import SinkExtension, SourceExtension


class SourceScript(Helper):
    """Writes the lines of a file."""

    def __init__(self, messages: Path) -> None:
        super().__init__(_write, messages)

    def connect(self, address: tuple[str, int]) -> None:
        """Connect to the application."""
        self._ask("connect", *address)

    def start_writing(self, first: int, end: int, *, with_sequences: bool) -> None:
        """Write some of the messages, without waiting for it."""
        self._commands.send(("write", first, end, with_sequences))

    def finish(self, patience: float) -> int:
        """Wait until everything is acknowledged; return when the first message was written, in ns."""
        started: int = self._answer(patience)
        return started


class SinkScript(Helper):
    """Writes what it reads to a file."""

    def __init__(self, output: Path) -> None:
        super().__init__(_read, output)
        host, port = self._answer()
        self.address = f"{host}:{port}"

    def start_reading(self, count: int) -> None:
        """Read so many messages, without waiting for it."""
        self._commands.send(("read", count))

    def finish(self, patience: float) -> int:
        """Wait until they have been read; return when the last one was, in ns."""
        last: int = self._answer(patience)
        return last


def _write(commands: Connection, messages: Path) -> None:
    lines = messages.read_bytes().splitlines()
    extension = SourceExtension(bytes)
    with suppress(EOFError):
        while (command := commands.recv())[0] != "stop":
            commands.send(_obey(extension, lines, *command))
    extension.close(0)


def _obey(extension: SourceExtension, lines: list[bytes], command: str, *arguments: Any) -> int:
    if command == "connect":
        extension.connect(*arguments)
        return 0
    first, end, with_sequences = arguments
    write = extension.write
    started = time.monotonic_ns()
    if with_sequences:
        for number in range(first, end):
            write(lines[number], number & 1023, number)
    else:
        for number in range(first, end):
            write(lines[number])
    extension.wait_acknowledged()
    return started


def _read(commands: Connection, output: Path) -> None:
    with SinkExtension(bytes) as extension, output.open("wb") as file:
        extension.listen("127.0.0.1", 0)
        commands.send(extension.address)
        with suppress(EOFError):
            while (command := commands.recv())[0] != "stop":
                _, count = command
                read, write = extension.read, file.write
                for _ in range(count):
                    write(read())
                last = time.monotonic_ns()
                extension.confirm()
                file.flush()
                commands.send(last)
