"""`wallaroo connect file-tail`: sends the lines of a file to an application, and follows it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

import click

from wallaroo.cli.screen import say
from wallaroo.connect.script import Sending, source_script
from wallaroo.errors import WallarooError
from wallaroo.experimental import SourceExtension

_PAUSE_SECONDS = 0.1
_QUIET_SECONDS = 5.0
"""How long a file must not have grown, after another took its place, until its writer has surely noticed."""
_LONGEST_LINE = 16 << 20
_COMPARED = 64
"""How many bytes before the next line show whether the file is still the same."""


@source_script
@click.argument("path", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--once", is_flag=True, help="End at the end of the file; its last line may lack a newline.")
def command(send: Sending, path: Path, *, once: bool) -> None:
    """Send the lines of a file to an application, from the first one on, and those that are appended.

    The application remembers up to where it has them: so it gets each line once, whatever is killed. A file that takes
    the place of this one is read from its beginning, some seconds after this one has got its last line; so is one that
    was truncated. What is rotated away while the script does not run is not read.

    \b
    wallaroo connect file-tail 127.0.0.1:7100 /var/log/nginx/access.log
    """  # noqa: D301 - click wants the real character.
    was_truncated = False
    while True:
        with _opened(path, once=once) as file:
            was_truncated = _follow(send, path, file, once=once, anew=was_truncated)
        if once:
            return


def _follow(send: Sending, path: Path, file: BinaryIO, *, once: bool, anew: bool) -> bool:
    """Send the lines that the application does not have, until the file is over; return whether it was truncated.

    A partition is a file, whatever it is called: it is known by its number on the disk, and by its first line.
    """
    partition, before, unfinished = "", b"", b""
    quiet_since = compare_at = time.monotonic()
    while True:
        start, now = file.tell(), time.monotonic()
        line = file.readline(_LONGEST_LINE)
        if len(line) == _LONGEST_LINE:
            raise WallarooError(f"{path} has a line of more than {_LONGEST_LINE:,} bytes: is it a text file?")
        is_whole = line.endswith(b"\n")
        if not is_whole or now > compare_at:
            if os.pread(file.fileno(), len(before), start - len(before)) != before:
                return True
            compare_at = now + _PAUSE_SECONDS
        if is_whole or line != unfinished or not _was_replaced(path, file):
            quiet_since, unfinished = now, line
        is_over = not is_whole and (once or now - quiet_since > _QUIET_SECONDS)
        if is_whole or (line and is_over):
            if not partition:
                partition, sent = _known(send.application, file, line, anew=anew)
                if sent:
                    file.seek(sent)
                    before = os.pread(file.fileno(), _COMPARED, max(sent - _COMPARED, 0))[:sent]
                    continue
            send(line.removesuffix(b"\n").removesuffix(b"\r"), partition, file.tell())
            before = (before + line)[-_COMPARED:]
        elif is_over:
            return False
        else:
            # Half a line is read again when there is more of it.
            file.seek(start)
            time.sleep(_PAUSE_SECONDS)


def _known(application: SourceExtension, file: BinaryIO, first_line: bytes, *, anew: bool) -> tuple[str, int]:
    """Return the partition of a file, and up to where the application has it: of its last generation.

    A new one begins when the file is truncated, which may go on with the same first line.
    """
    application.wait_acknowledged()  # What it has is known when it is on its disk.
    status = os.fstat(file.fileno())
    name = f"{status.st_dev}:{status.st_ino}:{crc32(first_line):08x}"
    generation, sent = 0, 0
    while (more := application.resume_from(f"{name}:{generation}")) is not None:
        generation, sent = generation + 1, more
    if generation and sent <= status.st_size and not anew:
        return f"{name}:{generation - 1}", sent
    return f"{name}:{generation}", 0


def _was_replaced(path: Path, file: BinaryIO) -> bool:
    try:
        return not os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _opened(path: Path, *, once: bool) -> BinaryIO:
    if not once and not path.exists():
        say(f"Waiting for {path}")
    while True:
        try:
            return path.open("rb")
        except FileNotFoundError:
            if once:
                raise
            time.sleep(_PAUSE_SECONDS)


if __name__ == "__main__":
    command()
