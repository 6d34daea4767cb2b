"""`wallaroo send`: sends messages to a TCP source, or a topic; they count as sent once they are confirmed."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Protocol

import click

from wallaroo.addresses import Address
from wallaroo.cli import screen
from wallaroo.cli.framing import FRAMINGS, LINES, InputError
from wallaroo.cli.kafka_io import TopicWriter
from wallaroo.cli.kafka_topic import (
    KAFKA_ONLY,
    AddressOrTopicType,
    Topic,
    find_topic,
    refuse_given,
    settings_of,
)
from wallaroo.cli.network import NotConfirmedError, connect, end_stream, has_ended
from wallaroo.cli.options import send_options
from wallaroo.cli.screen import SEND_EXIT_CODES, exit_codes_help
from wallaroo.cli.send_input import STDIN, Batch, Input, frames, limited, lines, paced
from wallaroo.errors import WallarooError
from wallaroo.sizes import plural


@dataclass
class Tally:
    """What has been passed to the operating system so far."""

    messages: int = 0
    bytes: int = 0

    def __str__(self) -> str:
        return f"{plural(self.messages, 'message')} ({plural(self.bytes, 'byte')})"


def send(
    connection: socket.socket,
    batches: Iterable[Batch],
    tally: Tally,
    show: Callable[[Tally], None] = lambda _: None,
    *,
    wait: float | None = None,
) -> None:
    """Write every batch, keeping `tally` exact even if the connection breaks in the middle of one.

    A receiver that accepts nothing for `wait` seconds is given up on; None or 0 means no limit.
    """
    connection.settimeout(wait or None)
    for batch in batches:
        data = memoryview(b"".join(batch))
        written = 0
        try:
            while written < len(data):
                written += connection.send(data[written:])
        except OSError as error:
            tally.bytes += written
            tally.messages += sum(end <= written for end in accumulate(map(len, batch)))
            if isinstance(error, TimeoutError) and wait:
                raise NotConfirmedError(
                    f"the receiver has accepted nothing for {wait:g} s: {_in_doubt(tally)}"
                ) from error
            raise _broken(tally) from error
        tally.bytes += written
        tally.messages += len(batch)
        show(tally)


def finish(connection: socket.socket, tally: Tally, *, wait: float | None, on_wait: Callable[[], None]) -> bool:
    """Shut down sending, and wait for the receiver to confirm; with `wait` 0, return False without waiting."""
    try:
        if wait != 0 and has_ended(connection):
            raise NotConfirmedError(
                f"the receiver ended its side of the connection before everything was sent, and so cannot confirm "
                f"anything: {_in_doubt(tally)}. For one that always does so, write --wait 0"
            )
        confirmed = end_stream(connection, within=wait, on_wait=on_wait)
    except OSError as error:
        raise _broken(tally) from error
    if wait and not confirmed:
        raise NotConfirmedError(f"the receiver has not confirmed within {wait:g} s: {_in_doubt(tally)}")
    return confirmed


def _broken(tally: Tally) -> NotConfirmedError:
    return NotConfirmedError(
        f"the receiver broke the connection: {_in_doubt(tally)}. An application reports why it closes a connection"
    )


def _in_doubt(tally: Tally) -> str:
    return f"{tally} had been handed over; none of them is confirmed, and some may have been accepted"


@click.command(context_settings={"max_content_width": 110}, epilog=exit_codes_help(SEND_EXIT_CODES))
@click.argument("address", metavar="HOST:PORT | kafka://HOST:PORT/TOPIC", type=AddressOrTopicType())
@send_options
@click.pass_context
def command(  # noqa: PLR0913 - one argument for each option.
    context: click.Context,
    *,
    address: Address | Topic,
    path: Path,
    framing: str,
    raw: bool,
    rate: float | None,
    repeat: int,
    limit: int | None,
    retry: float,
    wait: float | None,
    key_separator: str | None,
    create_topic: int | None,
    kafka_config: tuple[str, ...],
    quiet: bool,
) -> None:
    """Send each line of a file, or of standard input, as a message over TCP, or to a topic of Kafka.

    At the end it waits for the receiver to confirm: a source closes the connection when it has accepted everything, and
    resets it otherwise. A source that cannot keep up makes its senders wait.

    In a topic of Kafka, each line is the value of a message, and the brokers confirm each. Several brokers are written
    with commas, as in kafka://kafka1:9092,kafka2:9092/words; the port is 9092 if it is left out. --framing, --raw and
    --wait 0 are not for topics.

    \b
    wallaroo send 127.0.0.1:7010 --file text.txt
    wallaroo send 127.0.0.1:7010 --file text.txt --rate 1000 --repeat 10
    wallaroo send 127.0.0.1:7010 --file frames.bin --raw --framing u16be
    wallaroo send 127.0.0.1:7010 --file text.txt --framing lines
    echo "why hello world" | wallaroo send 127.0.0.1:7010
    echo "why hello world" | wallaroo send kafka://127.0.0.1:9092/words --create-topic 4
    wallaroo send kafka://127.0.0.1:9092/orders --file orders.txt --key-separator :
    """  # noqa: D301 - click wants the real character.
    source = Input(None if str(path) == "-" else path, repeat)
    if source.path is None and repeat > 1:
        raise click.UsageError("--repeat needs --file: standard input can be read only once")

    def on_wait() -> None:
        if not quiet:
            screen.say(f"waiting up to {retry:g} s for {address} to accept connections")

    if isinstance(address, Topic):
        refuse_given(context, ("--framing", "--raw"), "is for TCP: each line is a message of the topic")
        if wait == 0:
            raise click.UsageError("--wait 0 is for TCP: a topic's brokers confirm every message")
        every = (batch for stream in source.streams() for batch in lines(stream))
        settings = settings_of(key_separator, create_topic, kafka_config)
        with screen.plain_errors(exit_codes=True):
            source.check()
            find_topic(address, settings, retry=retry, on_wait=on_wait)
            writer = TopicWriter(address, settings, wait=wait)
            _Sending(address, writer, quiet=quiet).run(paced(limited(every, limit), rate), source, limit)
        return
    refuse_given(context, KAFKA_ONLY, "is for topics, such as kafka://127.0.0.1:9092/words")
    chosen = FRAMINGS.get(framing)
    end_last = framing == LINES and not raw
    every = (batch for stream in source.streams() for batch in frames(stream, chosen, raw=raw, end_last=end_last))
    with screen.plain_errors(exit_codes=True):
        source.check()
        with connect(address, retry=retry, on_wait=on_wait) as connection:
            stream = _Stream(connection, wait)
            _Sending(address, stream, quiet=quiet).run(paced(limited(every, limit), rate), source, limit)


class _Way(Protocol):
    """How messages get to the receiver."""

    expects: str
    """What the receiver does to confirm, as text that can follow a colon."""

    def send(self, batches: Iterable[Batch], tally: Tally, show: Callable[[Tally], None]) -> None:
        """Send every batch, keeping `tally` exact."""

    def finish(self, tally: Tally, on_wait: Callable[[], None]) -> bool:
        """Wait for the receiver to confirm; return whether it did."""


class _Stream:
    """A TCP connection."""

    expects = "it closes the connection when it has accepted all of them"

    def __init__(self, connection: socket.socket, wait: float | None) -> None:
        self._connection = connection
        self._wait = wait

    def send(self, batches: Iterable[Batch], tally: Tally, show: Callable[[Tally], None]) -> None:
        send(self._connection, batches, tally, show, wait=self._wait)

    def finish(self, tally: Tally, on_wait: Callable[[], None]) -> bool:
        return finish(self._connection, tally, wait=self._wait, on_wait=on_wait)


class _Sending:
    """Sends to one receiver, and reports whether it has confirmed."""

    def __init__(self, address: Address | Topic, way: _Way, *, quiet: bool) -> None:
        self._address = address
        self._way = way
        self._quiet = quiet
        self._tally = Tally()
        self._started = time.monotonic()

    def run(self, batches: Iterable[Batch], source: Input, limit: int | None) -> None:
        """Send everything, wait for the confirmation, and report."""
        try:
            try:
                self._send(batches, source, limit)
            except InputError as error:
                raise self._cut_short(error) from error
            confirmed = self._finish()
        except KeyboardInterrupt:
            # The write that was interrupted may or may not have happened.
            self._report("stopped: handed over at least", "none of them is confirmed")
            sys.exit(130)
        if confirmed:
            self._report("sent", "all confirmed")
        else:
            self._report("handed over", "not waiting for a confirmation")

    def _send(self, batches: Iterable[Batch], source: Input, limit: int | None) -> None:
        # A progress bar would disturb what a user types.
        visible = not self._quiet and not (source.path is None and os.isatty(STDIN))
        with screen.progress_bar("sending", "message", limit or source.size(), visible=visible) as bar:
            self._way.send(batches, self._tally, lambda now: bar(now.messages if limit else now.bytes, now.messages))

    def _finish(self) -> bool:
        return self._way.finish(self._tally, self._on_wait)

    def _on_wait(self) -> None:
        if not self._quiet:
            screen.say(
                f"waiting for {self._address} to confirm {plural(self._tally.messages, 'message')}: {self._way.expects}"
            )

    def _cut_short(self, error: InputError) -> WallarooError:
        """Return the error for an input that cannot be sent to its end."""
        before = f"{plural(self._tally.messages, 'message')} sent before it"
        try:
            confirmed = self._finish()
        except NotConfirmedError as doubt:
            return NotConfirmedError(f"{error}, and {doubt}")
        return WallarooError(f"{error} ({before}, {'confirmed' if confirmed else 'not confirmed'})")

    def _report(self, done: str, outcome: str) -> None:
        if not self._quiet:
            seconds = time.monotonic() - self._started
            pace = screen.rate(self._tally.messages, "message", seconds)
            screen.say(f"{done} {self._tally} in {seconds:.2f} s{pace}; {outcome}")
