"""The log of a run: what `machida` writes to the screen, and to a file if one was given.

As text, lines about the state of the run (where it listens, where its state is, that it is ready) are printed
unchanged, and warnings are prefixed with their time and level. As JSON, each line is an object with `time`, `level` and
`message`, for programs that collect logs. In a file, each line of text is prefixed with its date, time and level.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from enum import IntEnum
from pathlib import Path

import click

from wallaroo.notices import Printed

FORMATS = ("text", "json")


class Level(IntEnum):
    """The severity of a line."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40

    @property
    def mark(self) -> str:
        """Return the level as shown in a line of text, padded to a fixed width."""
        return f"{'WARN' if self is Level.WARNING else self.name:<5}"


LEVELS = {level.name.lower(): level for level in Level}
_COLOURS = {Level.WARNING: "yellow", Level.ERROR: "red"}


class Log:
    """Writes the log of a run in one format.

    Args:
        level: The minimum level.
        as_json: Write JSON objects instead of text.
        file: Also append each line to this file. It is opened for each line, so it can be rotated.

    Raises:
        OSError: The file cannot be written.
    """

    def __init__(self, level: Level = Level.INFO, *, as_json: bool = False, file: Path | None = None) -> None:
        self._level = level
        self._as_json = as_json
        self._file = file
        self.always: Collection[str] = ()
        """Texts that are logged at any level."""
        self._file_fails = False
        if file is not None:
            _append(file, b"")

    def debug(self, text: str) -> None:
        """Log something that helps with debugging."""
        self._write(Level.DEBUG, text)

    def info(self, text: str) -> None:
        """Log the progress of the run."""
        self._write(Level.INFO, text)

    def warning(self, text: str) -> None:
        """Log a warning; output printed by the application is passed on unchanged."""
        self._write(Level.INFO if isinstance(text, Printed) else Level.WARNING, text)

    def last_words(self, text: str) -> None:
        """Warn from a signal handler, bypassing `sys.stderr`, which may be in the middle of another line."""
        line = self._line(Level.WARNING, text, datetime.now().astimezone())
        with suppress(OSError):
            os.write(2, click.unstyle(line).encode(errors="backslashreplace") + b"\n")

    @contextmanager
    def reporting_errors(self) -> Iterator[None]:
        """Also log an error that ends the command; as JSON, it is only logged."""
        try:
            yield
        except click.ClickException as error:
            text, now = error.format_message(), datetime.now().astimezone()
            self._write_to_file(Level.ERROR, text, now)
            if not self._as_json:
                raise
            click.echo(self._line(Level.ERROR, text, now), err=True)
            sys.exit(error.exit_code)

    def _write(self, level: Level, text: str) -> None:
        printed = isinstance(text, Printed)
        if level < self._level and not printed and text not in self.always:
            return
        now = datetime.now().astimezone()
        to_screen = text if printed and not self._as_json else self._line(level, text, now)
        try:
            click.echo(to_screen, err=printed or level >= Level.WARNING)
        finally:  # Even if standard output or standard error is closed.
            self._write_to_file(level, text, now)

    def _line(self, level: Level, text: str, now: datetime) -> str:
        """Return a line for the screen."""
        if self._as_json:
            return _as_json(level, text, now)
        if level < Level.WARNING:
            return text
        mark = click.style(level.mark, fg=_COLOURS[level])
        return f"{click.style(f'{now:%H:%M:%S}', dim=True)} {mark} {text}"

    def _write_to_file(self, level: Level, text: str, now: datetime) -> None:
        if self._file is None:
            return
        line = _as_json(level, text, now) if self._as_json else f"{now:%Y-%m-%d %H:%M:%S} {level.mark} {_plain(text)}"
        try:
            _append(self._file, line.encode(errors="backslashreplace") + b"\n")
        except OSError as error:
            # The run continues. The failure is reported once.
            if not self._file_fails:
                self._file_fails = True
                why = f"The log file {self._file} cannot be written: {error.strerror}. The application continues."
                click.echo(self._line(Level.WARNING, why, now), err=True)
        else:
            self._file_fails = False


def _as_json(level: Level, text: str, now: datetime) -> str:
    entry = {"time": now.isoformat(timespec="milliseconds"), "level": level.name.lower(), "message": _plain(text)}
    return json.dumps(entry)


def _plain(text: str) -> str:
    """Return a text without colours, and without the padding that aligns lines about a run.

    >>> _plain("  state in    /var/lib/words")
    'state in /var/lib/words'
    """
    return re.sub(r"^ {2}(\S.*?) {2,}(?=\S)", r"\1 ", click.unstyle(text)).strip()


def _append(file: Path, data: bytes) -> None:
    """Append to a file with a single call, so that lines of several threads are not mixed."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)
