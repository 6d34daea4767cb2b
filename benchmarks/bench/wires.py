"""Handles to a sender and a receiver, which run in processes of their own as they would in production."""

from __future__ import annotations

import multiprocessing
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from bench.errors import NotRunningError, TooSlowError
from bench.inputs import Frames
from bench.wire_processes import Arrivals, Schedule, receive, send

_PROCESSES = multiprocessing.get_context("spawn")


class Helper:
    """A process that follows commands from a pipe."""

    def __init__(self, target: Any, *arguments: Any) -> None:
        self._commands, theirs = _PROCESSES.Pipe()
        self._process = _PROCESSES.Process(target=target, args=(theirs, *arguments), daemon=True)
        self._process.start()
        theirs.close()

    def _ask(self, *command: Any, patience: float = 60.0) -> Any:
        self._commands.send(command)
        return self._answer(patience)

    def _answer(self, patience: float = 60.0) -> Any:
        if not self._commands.poll(patience):
            raise TooSlowError(f"No answer from the {type(self).__name__.lower()} within {patience:.0f} seconds.")
        who = type(self).__name__.lower()
        try:
            answer = self._commands.recv()
        except EOFError as error:
            raise NotRunningError(f"The {who} has died; see above.") from error
        if isinstance(answer, OSError):
            raise NotRunningError(f"The {who} could not go on: {answer}")
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._commands.send(("stop",))
        self._process.join(5)
        self._process.kill()


class Receiver(Helper):
    """Takes in all connections, and writes what comes to a file if one is given."""

    def __init__(self, output: Path | None = None) -> None:
        super().__init__(receive, output)
        host, port = self._answer()
        self.address = f"{host}:{port}"

    def progress(self) -> tuple[int, int]:
        """Return how many bytes have been read, and when the last of them came, in ns."""
        found: tuple[int, int] = self._ask("total")
        return found

    @property
    def total(self) -> int:
        """Return how many bytes have been read."""
        return self.progress()[0]

    def wait_for(self, total: int, patience: float) -> int:
        """Wait until so many bytes have come; returns when the last of them did, in ns."""
        self._commands.send(("wait", total))
        if not self._commands.poll(patience):
            self._commands.send(("give up",))
            self._commands.recv()
            raise TooSlowError(f"{self.total:,} of {total:,} bytes had come after {patience:.0f} seconds.")
        last: int = self._commands.recv()
        return last

    def wait_until_quiet(self, before: int, seconds: float, patience: float) -> None:
        """Wait until there are more bytes than `before`, and then no new ones for a while."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            total, last = self.progress()
            if total > before and time.monotonic_ns() - last > seconds * 1e9:
                return
            time.sleep(seconds / 10)
        raise TooSlowError(f"Bytes were still coming after {patience:.0f} seconds, or never came.")

    def arrivals(self) -> Arrivals:
        """Return when how much had come."""
        found: Arrivals = self._ask("arrivals")
        return found


class Sender(Helper):
    """Sends to sources."""

    def __init__(self) -> None:
        super().__init__(send)

    def send(self, address: tuple[str, int], frames: Frames, part: tuple[int, int]) -> float:
        """Send a part of some frames; returns the seconds until all was accepted."""
        self.start_sending(address, frames, part)
        started, ended = self.finish()
        return (ended - started) / 1e9

    def start_sending(self, address: tuple[str, int], frames: Frames, part: tuple[int, int]) -> None:
        """Send a part of some frames, without waiting for it."""
        self._commands.send(("file", address, frames.path, *part))

    def listen(self) -> str:
        """Have a program connect that wants to be the client; returns the address."""
        host, port = self._ask("listen")
        return f"{host}:{port}"

    def connect(self, address: tuple[str, int] | None, patience: float = 120.0) -> None:
        """Connect for the next schedule; without an address, wait for the program that connects."""
        self._ask("connect", address, patience=patience)

    def start_schedule(self, schedule: Schedule) -> None:
        """Keep to a schedule on the connection, without waiting for it."""
        self._commands.send(("schedule", schedule))

    def finish(self, patience: float = 600.0) -> tuple[int, int]:
        """Wait until all is sent that was started; returns the times of the first and of the last byte, in ns."""
        times: tuple[int, int] = self._answer(patience)
        return times
