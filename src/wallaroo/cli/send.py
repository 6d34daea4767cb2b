"""`wallaroo send`: the lines or frames of a file, handed over to a TCP source.

A chain of generators reads pieces of the input, cuts them into messages, limits and paces them; the end of
the chain writes what it gets. Nothing but the piece in hand is kept in memory.
"""

from __future__ import annotations

import math
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO

import click

from wallaroo.cli import screen
from wallaroo.cli.framing import (
    FRAMING_NAMES,
    FRAMINGS,
    FrameSplitter,
    Framing,
    InputError,
    MessageTooLongError,
)
from wallaroo.cli.network import Address, AddressType, connect
from wallaroo.errors import WallarooError

_STDIN = 0
_PIECE = 1 << 20
# Where messages are due more often than this, those of one interval go out in one write.
_PACE_SECONDS = 0.002
# How long to wait for the other side to confirm, by closing, that it has read everything.
_FAREWELL_SECONDS = 1.0

Batch = list[bytes]
"""Messages as they go over the wire, to be written at once."""


@dataclass
class Tally:
    """What has been handed over to the operating system so far."""

    messages: int = 0
    bytes: int = 0


def pieces(file: BinaryIO) -> Iterator[bytes]:
    """Yield what an unbuffered file holds, as it comes."""
    while piece := file.read(_PIECE):
        yield piece


def lines(stream: Iterable[bytes], *, end: bytes = b"") -> Iterator[Batch]:
    r"""Yield the lines of a stream, with `end` in place of their newlines.

    >>> list(lines([b"to be\nor n", b"ot to be"]))
    [[b'to be'], [b'or not to be']]
    """
    unfinished: list[bytes] = []
    for piece in stream:
        first, *rest = piece.split(b"\n")
        unfinished.append(first)
        if rest:
            # Joined only here, so that a line of any length is copied once.
            unfinished, batch = [rest.pop()], [b"".join(unfinished), *rest]
            yield [line + end for line in batch] if end else batch
    if last := b"".join(unfinished):
        yield [last]


def frames(stream: Iterable[bytes], framing: Framing | None, *, raw: bool = False) -> Iterator[Batch]:
    r"""Yield the messages of a stream as they go over the wire.

    Each line becomes a message with a header in front. A `raw` stream consists of such messages already.
    Without a framing the stream stays as it is, and its lines, newlines included, are the messages.

    >>> list(frames([b"to\nbe\n"], FRAMINGS["u8"]))
    [[b'\x02to', b'\x02be']]
    >>> list(frames([b"\x02to\x02", b"be"], FRAMINGS["u8"], raw=True))
    [[b'\x02to'], [b'\x02be']]
    >>> list(frames([b"to\nbe"], None))
    [[b'to\n'], [b'be']]
    """
    if framing is None:
        yield from lines(stream, end=b"\n")
    elif raw:
        yield from _whole_frames(stream, framing)
    else:
        for batch in lines(stream):
            try:
                yield framing.wrap(batch)
            except MessageTooLongError as error:
                yield error.before
                raise


def _whole_frames(stream: Iterable[bytes], framing: Framing) -> Iterator[Batch]:
    splitter = FrameSplitter(framing, keep_headers=True)
    for piece in stream:
        if batch := splitter.feed(piece):
            yield batch
    if missing := splitter.missing():
        raise InputError(
            f"the input ends in the middle of a {framing.name} frame: "
            f"{screen.counted(missing, 'byte')} or more are missing"
        )


def limited(batches: Iterable[Batch], limit: int | None) -> Iterator[Batch]:
    """Yield no more than `limit` messages; None means all of them.

    >>> list(limited([[b"a", b"b"], [b"c", b"d"], [b"e"]], 3))
    [[b'a', b'b'], [b'c']]
    """
    left = math.inf if limit is None else limit
    for batch in batches:
        if len(batch) >= left:
            yield batch[: int(left)]
            return
        left -= len(batch)
        yield batch


def paced(batches: Iterable[Batch], rate: float | None) -> Iterator[Batch]:
    """Yield each message when it is due, `rate` of them a second; None means at once.

    The schedule does not wait for the receiver: after a pause that it forced, what is overdue comes at once.
    """
    if rate is None:
        yield from batches
        return
    started = time.monotonic()
    sent = 0
    for batch in batches:
        position = 0
        while position < len(batch):
            # Message number n is due n / rate seconds after the start.
            due = int((time.monotonic() - started) * rate) + 1 - sent
            if due > 0:
                some = batch[position : position + due]
                position += len(some)
                sent += len(some)
                yield some
            wait = max(started + sent / rate - time.monotonic(), _PACE_SECONDS if rate * _PACE_SECONDS > 1 else 0)
            if position < len(batch) and wait > 0:
                time.sleep(wait)


def send(
    connection: socket.socket,
    batches: Iterable[Batch],
    tally: Tally,
    show: Callable[[Tally], None] = lambda _: None,
) -> None:
    """Write every batch, keeping `tally` exact even when the connection breaks in the middle of one."""
    for batch in batches:
        data = memoryview(b"".join(batch))
        written = 0
        try:
            while written < len(data):
                written += connection.send(data[written:])
        except OSError as error:
            tally.bytes += written
            tally.messages += sum(end <= written for end in accumulate(map(len, batch)))
            raise _broken(tally) from error
        tally.bytes += written
        tally.messages += len(batch)
        show(tally)


def finish(connection: socket.socket, tally: Tally) -> None:
    """Say that nothing follows, and learn of a receiver that went away without reading everything."""
    try:
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(_FAREWELL_SECONDS)
        while connection.recv(_PIECE):
            pass
    except TimeoutError:
        return
    except OSError as error:
        raise _broken(tally) from error


def _broken(tally: Tally) -> WallarooError:
    return WallarooError(
        f"the receiver closed the connection: {screen.counted(tally.messages, 'message')} "
        f"({screen.counted(tally.bytes, 'byte')}) had been handed over, and it may not have read all of them"
    )


@dataclass(frozen=True)
class Input:
    """A file, read from the start as often as `repeat` says, or standard input where `path` is None."""

    path: Path | None
    repeat: int = 1

    def streams(self) -> Iterator[Iterator[bytes]]:
        """Yield the pieces of each round."""
        if self.path is None:
            with open(_STDIN, "rb", buffering=0, closefd=False) as file:
                yield pieces(file)
            return
        for _ in range(self.repeat):
            with self.path.open("rb", buffering=0) as file:
                yield pieces(file)

    def size(self) -> int | None:
        """Return how many bytes all rounds have together, None where that is not known beforehand."""
        if self.path is None or not self.path.is_file():
            return None
        return self.path.stat().st_size * self.repeat


@click.command()
@click.argument("address", metavar="HOST:PORT", type=AddressType())
@click.option(
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    default="-",
    help="What to send; - (the default) is standard input.",
)
@click.option(
    "--framing",
    type=click.Choice(FRAMING_NAMES),
    default="u32be",
    show_default=True,
    help="The header that holds each message's length; with none, the file is sent as it is.",
)
@click.option("--raw", is_flag=True, help="The file holds frames already: send it as it is.")
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="Send this many messages a second, evenly.")
@click.option("--repeat", type=click.IntRange(1), default=1, help="Send the file this many times.")
@click.option("--limit", type=click.IntRange(1), help="Stop after this many messages.")
@click.option(
    "--retry",
    type=click.FloatRange(0),
    default=10,
    show_default=True,
    help="Keep trying to connect for this many seconds.",
)
@click.option("--quiet", is_flag=True, help="Show nothing but errors.")
def command(  # noqa: PLR0913 - one argument for each option.
    *,
    address: Address,
    path: Path,
    framing: str,
    raw: bool,
    rate: float | None,
    repeat: int,
    limit: int | None,
    retry: float,
    quiet: bool,
) -> None:
    """Send each line of a file, or of standard input, as a message over TCP.

    \b
    wallaroo send 127.0.0.1:7010 --file text.txt
    wallaroo send 127.0.0.1:7010 --file text.txt --rate 1000 --repeat 10
    wallaroo send 127.0.0.1:7010 --file frames.bin --raw --framing u16be
    echo "why hello world" | wallaroo send 127.0.0.1:7010
    """  # noqa: D301 - click wants the real character.
    source = Input(None if str(path) == "-" else path, repeat)
    if source.path is None and repeat > 1:
        raise click.UsageError("--repeat needs --file: standard input can be read only once")

    def on_wait() -> None:
        if not quiet:
            screen.say(f"waiting up to {retry:g} s for {address} to accept connections")

    chosen = FRAMINGS.get(framing)
    batches = paced(
        limited((batch for stream in source.streams() for batch in frames(stream, chosen, raw=raw)), limit),
        rate,
    )
    with screen.plain_errors(), connect(address, retry=retry, on_wait=on_wait) as connection:
        _send_and_report(connection, batches, source, limit=limit, quiet=quiet)


def _send_and_report(
    connection: socket.socket, batches: Iterator[Batch], source: Input, *, limit: int | None, quiet: bool
) -> None:
    tally = Tally()
    started = time.monotonic()
    # A bar would be drawn into what somebody types.
    visible = not quiet and not (source.path is None and os.isatty(_STDIN))
    try:
        with screen.progress_bar("sending", "message", limit or source.size(), visible=visible) as bar:
            send(
                connection,
                batches,
                tally,
                lambda now: bar(now.messages if limit else now.bytes, now.messages),
            )
    except InputError as error:
        finish(connection, tally)
        raise WallarooError(f"{error} ({screen.counted(tally.messages, 'message')} sent before it)") from error
    except KeyboardInterrupt:
        # The write that was interrupted may or may not have happened.
        _report("stopped: sent at least", tally, time.monotonic() - started, quiet=quiet)
        sys.exit(130)
    seconds = time.monotonic() - started
    finish(connection, tally)
    _report("sent", tally, seconds, quiet=quiet)


def _report(done: str, tally: Tally, seconds: float, *, quiet: bool) -> None:
    if not quiet:
        screen.say(
            f"{done} {screen.counted(tally.messages, 'message')} ({screen.counted(tally.bytes, 'byte')}) "
            f"in {seconds:.2f} s{screen.rate(tally.messages, 'message', seconds)}"
        )
