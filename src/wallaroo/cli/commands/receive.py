"""`wallaroo receive`: writes what TCP sinks send, or what is in a topic, to standard output or a file."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

import click

from wallaroo.addresses import Address
from wallaroo.cli import screen
from wallaroo.cli.framing import FRAMINGS, Data, Frames, Lines, Reading
from wallaroo.cli.kafka_io import TopicReader, report
from wallaroo.cli.kafka_topic import (
    KAFKA_ONLY,
    AddressOrTopicType,
    Settings,
    Topic,
    find_topic,
    refuse_given,
    settings_of,
)
from wallaroo.cli.network import address_of, listen
from wallaroo.cli.options import receive_options
from wallaroo.cli.receive_effectively_once import BlockOutput, Blocks, NotABlockError, Record
from wallaroo.sizes import plural

_STDOUT = 1
_PIECE = 1 << 20
_RETRY_SECONDS = 10.0


@dataclass(frozen=True)
class Until:
    """When to stop: after this many messages, seconds, or seconds without data; None means never."""

    messages: int | None = None
    seconds: float | None = None
    idle: float | None = None


@dataclass
class Tally:
    """What has been received so far, and when the first and the last of it arrived."""

    messages: int = 0
    bytes: int = 0
    connections: int = 0
    first: float = 0.0
    last: float = 0.0


class Receiver:
    """Accepts any number of connections and passes what they receive to `output` at once.

    `reading` creates the object that splits the stream of a connection.
    """

    def __init__(
        self,
        listener: socket.socket,
        output: Callable[[Data], None],
        reading: Callable[[socket.socket], Reading],
        *,
        until: Until | None = None,
        warn: Callable[[str], None] = screen.say,
    ) -> None:
        self.tally = Tally()
        self._listener = listener
        self._reading = reading
        self._output = output
        self._until = until or Until()
        self._warn = warn
        self._selector = selectors.DefaultSelector()
        self._view = memoryview(bytearray(_PIECE))

    def run(self) -> None:
        """Receive until a condition of `until` is met."""
        started = time.monotonic()
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        try:
            while self._room() != 0:
                patience = self._patience(started)
                if patience is not None and patience <= 0:
                    return
                self._serve(patience)
        finally:
            for key in list(self._selector.get_map().values()):
                if isinstance(key.fileobj, socket.socket) and key.fileobj is not self._listener:
                    key.fileobj.close()
            self._selector.close()

    def _serve(self, patience: float | None) -> None:
        for key, _ in self._selector.select(patience):
            if self._room() == 0:
                return
            if key.fileobj is self._listener:
                self._accept()
            else:
                assert isinstance(key.fileobj, socket.socket)
                self._read(key.fileobj, key.data)

    def _room(self) -> int | None:
        return None if self._until.messages is None else max(self._until.messages - self.tally.messages, 0)

    def _patience(self, started: float) -> float | None:
        """Return for how many seconds to wait for data before it is time to stop."""
        ends = []
        if self._until.seconds is not None:
            ends.append(started + self._until.seconds)
        # The `idle` time starts with the first data: a sender may need time to start.
        if self._until.idle is not None and self.tally.bytes:
            ends.append(self.tally.last + self._until.idle)
        return min(ends) - time.monotonic() if ends else None

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        self.tally.connections += 1
        connection.setblocking(False)
        self._selector.register(connection, selectors.EVENT_READ, self._reading(connection))

    def _read(self, connection: socket.socket, reading: Reading) -> None:
        try:
            size = connection.recv_into(self._view)
        except BlockingIOError:
            return
        except OSError as error:
            self._warn(f"a sender broke its connection: {(error.strerror or str(error)).lower()}")
            size = 0
        try:
            if size:
                self._pass_on(reading, size)
            else:
                self._end(connection, reading)
        except NotABlockError as error:
            self._warn(f"closed a connection: {error}")
            self._selector.unregister(connection)
            connection.close()

    def _pass_on(self, reading: Reading, size: int) -> None:
        tally = self.tally
        tally.last = time.monotonic()
        tally.first = tally.first or tally.last
        tally.bytes += size
        data, messages = reading.take(self._view[:size], self._room())
        # Counted before it is written: a user who sees the data and then interrupts finds it in the summary.
        tally.messages += messages
        if data:
            self._output(data)
        reading.settle()

    def _end(self, connection: socket.socket, reading: Reading) -> None:
        self._selector.unregister(connection)
        connection.close()
        self.tally.messages += reading.end()
        if missing := reading.missing():
            self._warn(f"a connection ended in the middle of a frame: {plural(missing, 'byte')} or more are missing")


def write_all(descriptor: int, data: Data) -> None:
    """Write all of `data`, in as many writes as needed."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


@contextlib.contextmanager
def opened(path: Path | None, *, emptied: bool) -> Iterator[int]:
    """Yield the descriptor of a file, or of standard output if `path` is None."""
    if path is None:
        yield _STDOUT
    else:
        with path.open("wb" if emptied else "ab", buffering=0) as file:
            yield file.fileno()


@click.command()
@click.argument("address", metavar="HOST:PORT | kafka://HOST:PORT/TOPIC", type=AddressOrTopicType())
@receive_options
@click.pass_context
def command(  # noqa: PLR0913 - one argument for each option.
    context: click.Context,
    *,
    address: Address | Topic,
    path: Path | None,
    framing: str,
    messages: int | None,
    seconds: float | None,
    idle: float | None,
    count_only: bool,
    effectively_once: bool,
    remember: Path | None,
    from_beginning: bool,
    key_separator: str | None,
    create_topic: int | None,
    kafka_config: tuple[str, ...],
    quiet: bool,
) -> None:
    """Listen on an address, or follow a topic of Kafka, and print what is received.

    Any number of senders can connect; port 0 stands for any free port. It stops at Ctrl-C or SIGTERM, or as the options
    say, and prints a summary on standard error. Without a framing, lines of several senders may be mixed.

    Of a topic of Kafka, it prints the messages that are committed, each on a line of its own, and those of one
    partition in their order. It joins no consumer group, and leaves no trace in the cluster. --framing,
    --effectively-once and --remember are not for topics.

    \b
    wallaroo receive 127.0.0.1:7002
    wallaroo receive 127.0.0.1:7002 --output counts.txt --idle 5
    wallaroo receive 127.0.0.1:7002 --framing u32be --messages 1000
    wallaroo receive 127.0.0.1:7002 --output counts.txt --effectively-once
    wallaroo receive kafka://127.0.0.1:9092/counts --from-beginning --idle 5
    wallaroo receive kafka://127.0.0.1:9092/counts --key-separator : --messages 10
    """  # noqa: D301 - click wants the real character.
    until = Until(messages, seconds, idle)
    if isinstance(address, Topic):
        refuse_given(
            context, ("--framing", "--effectively-once", "--remember"), "is for TCP: only committed messages are read"
        )
        settings = settings_of(key_separator, create_topic, kafka_config)
        with screen.plain_errors(), opened(path, emptied=True) as descriptor:
            _receive_topic(
                address, settings, descriptor, until, from_beginning=from_beginning, count_only=count_only, quiet=quiet
            )
        return
    refuse_given(context, (*KAFKA_ONLY, "--from-beginning"), "is for topics, such as kafka://127.0.0.1:9092/counts")
    if remember and not effectively_once:
        raise click.UsageError("--remember goes with --effectively-once.")
    chosen = FRAMINGS.get(framing)
    new_reading = partial(Frames, chosen) if chosen else Lines
    goes_on = effectively_once and not count_only
    with screen.plain_errors(), listen(address) as listener, opened(path, emptied=not goes_on) as descriptor:
        write = _ignore if count_only else partial(write_all, descriptor)
        blocks = None
        if effectively_once:
            file = descriptor if path and goes_on else None
            record = Record(remember or (path.with_name(f"{path.name}.batches") if path and goes_on else None))
            blocks = BlockOutput(write, record, new_reading, file)
        receiver = Receiver(
            listener,
            write,
            (lambda connection: Blocks(blocks, connection)) if blocks else (lambda _: new_reading()),
            until=until,
        )
        signal.signal(signal.SIGTERM, _interrupt)
        # A reader that has read enough (`| head`) and a Ctrl-C both end the command as intended.
        with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
            screen.say(f"listening on {address_of(listener)}")
            receiver.run()
        if count_only:
            write_all(descriptor, f"{receiver.tally.messages}\n".encode())
    if not quiet:
        _report(receiver.tally, "message" if chosen else "line")
        if blocks and blocks.repeats:
            screen.say(f"dropped blocks that were received before: {plural(blocks.repeats, 'time')}")


def _receive_topic(  # noqa: PLR0913 - the options that count for topics.
    topic: Topic,
    settings: Settings,
    descriptor: int,
    until: Until,
    *,
    from_beginning: bool,
    count_only: bool,
    quiet: bool,
) -> None:
    """Print what is in a topic."""
    partitions = find_topic(
        topic, settings, retry=_RETRY_SECONDS, on_wait=lambda: screen.say(f"waiting for a broker at {topic.servers}")
    )
    tally = Tally()
    write = _ignore if count_only else partial(write_all, descriptor)
    signal.signal(signal.SIGTERM, _interrupt)
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        TopicReader(topic, partitions, settings, write, until).run(tally, from_beginning=from_beginning)
    if count_only:
        write_all(descriptor, f"{tally.messages}\n".encode())
    if not quiet:
        report(tally, len(partitions))


def _ignore(_data: Data) -> None:
    """Discard data that is only counted."""


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _report(tally: Tally, noun: str) -> None:
    seconds = tally.last - tally.first
    screen.say(
        f"received {plural(tally.messages, noun)} ({plural(tally.bytes, 'byte')}) "
        f"through {plural(tally.connections, 'connection')} in {seconds:.2f} s"
        f"{screen.rate(tally.messages, noun, seconds)}"
    )
