"""The half of a source that is a script: it sends messages to an application."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
import time
import uuid
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from wallaroo.addresses import port_number
from wallaroo.backoff import Backoff
from wallaroo.connectors.extension.channel import Bell, Channel
from wallaroo.connectors.extension.protocol import (
    BESIDE_MESSAGE,
    BYE,
    DURABLE,
    FRAME_BYTES,
    NO_PARTITION,
    REFUSED,
    STANDS,
    Hello,
    Messages,
    OtherVersionError,
    ProtocolError,
    frame,
    hello,
    pack_ask,
    pack_messages,
    unpack_durable,
    unpack_stands,
)
from wallaroo.connectors.tcp.sockets import dial
from wallaroo.errors import WallarooError
from wallaroo.experimental.arguments import checked_bytes, checked_partition, checked_sequence, codec_function
from wallaroo.notices import REPORT_AGAIN_SECONDS, Condition

if TYPE_CHECKING:
    from collections.abc import Callable

    from wallaroo.connectors.extension.protocol import Frame

_LOGGER = logging.getLogger("wallaroo.experimental")

_MOST_BYTES = 32 << 20
"""How much may be written and not be durable in the application before `write` waits."""
_MESSAGE_BYTES = 100
"""What a message counts in addition to its own bytes."""
_FIRST_RETRY_SECONDS = 0.05
_LONGEST_RETRY_SECONDS = 2.0
_DIAL_SECONDS = 10.0
_HELLO_SECONDS = 10.0
_AT_EXIT_SECONDS = 10.0

_open: weakref.WeakSet[SourceExtension] = weakref.WeakSet()


class _Sent(NamedTuple):
    """A frame of messages that is kept until it is durable."""

    last: int
    frame: bytes
    cost: int
    largest: int
    """The length of its longest message."""


class _RefusedError(ProtocolError):
    """The application does not take what the script has sent, and would not take it again."""


class SourceExtension:
    """Sends messages to the source of an application that has a `SourceExtensionConfig`.

    What is written is sent in the background, many messages at a time, and kept until the application has it on its
    disk. If the connection breaks, it is made again, and what the application does not have is sent again; the
    application counts nothing twice. If the script itself may start again and repeat messages, give each a `partition`
    and a `sequence`: what the application has had of a partition, it drops.

    It may be used by several threads.

    Args:
        encoder: Turns a message into bytes, or text: a function with `@streaming_message_encoder` above it, an object
            with `encode(message)`, or any function.

    >>> from wallaroo.experimental import streaming_message_encoder
    >>> @streaming_message_encoder
    ... def text_encoder(message):
    ...     return message.encode("utf-8")
    >>> extension = SourceExtension(text_encoder)
    >>> extension.acknowledged
    0
    >>> extension.write("hello")
    Traceback (most recent call last):
    wallaroo.errors.WallarooError: This SourceExtension is not connected: call connect(host, port) first.
    """

    def __init__(self, encoder: Any) -> None:
        self._encode: Callable[[Any], Any] = codec_function(encoder, "encode", "encoder")
        # Drawn when it is connected: a process that is copied must not have two scripts of the same id.
        self._script = ""
        self._bell: Bell
        self._address = ("", 0)
        self._thread: threading.Thread | None = None
        # Guards everything below; whoever waits for a change is notified of it.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._is_connected = False
        self._is_idle = True
        """Whether the thread has sent everything, and has to be woken for more."""
        self._written = self._acknowledged = 0
        self._unsent: list[bytes] = []
        self._marks: dict[int, tuple[str, int]] = {}
        """The partitions and sequences of those that have them, by their numbers."""
        self._unsent_bytes = 0
        self._sent: deque[_Sent] = deque()
        self._held_bytes = 0
        self._most_bytes = -1
        """How many bytes may be held before `write` looks closer: none if it is not connected, or over."""
        self._next = 0
        """Which of the frames in `_sent` is sent next."""
        self._largest = 0
        self._questions = 0
        self._asked: dict[int, str] = {}
        self._answers: dict[int, int | None] = {}
        self._failure: WallarooError | None = None
        self._is_closing = False
        self._retries = Backoff(_FIRST_RETRY_SECONDS, longest=_LONGEST_RETRY_SECONDS, jitter=0.3)
        self._missing = Condition(_LOGGER.warning, interval=REPORT_AGAIN_SECONDS)

    def connect(self, host: str, port: str | int) -> None:
        """Connect to the application; wait until it is there, however long that takes.

        Args:
            host: The host of its `SourceExtensionConfig`.
            port: The port.

        Raises:
            WallarooError: Something else listens there, or an application that speaks another version.
        """
        with self._changed:
            if self._failure is not None:
                raise self._failure
            if self._thread is not None:
                raise WallarooError("This SourceExtension is connected already: make another one for another source.")
            self._address = host, port_number(port)
            self._script = uuid.uuid4().hex
            self._bell = Bell()
            self._most_bytes = _MOST_BYTES
            self._thread = threading.Thread(target=self._run, name="wallaroo-source-extension", daemon=True)
            self._thread.start()
            _open.add(self)
            self._changed.wait_for(lambda: self._is_connected or self._is_over)
            self._raise_if_over()

    def write(self, message: Any, partition: Any = None, sequence: int | None = None) -> int:
        """Send a message; wait if too much has been written that the application does not have on its disk.

        Args:
            message: The message, for the encoder.
            partition: What the message belongs to: a file, a key, or anything else that can be made a string.
            sequence: Where it is in its partition. Sequences ascend: a message whose sequence is not greater than the
                last one that the application has of the partition is dropped. Without a sequence, each message counts.

        Returns:
            The number of the message: 1 for the first, and then always greater.

        Raises:
            WallarooError: The message cannot be sent.
        """
        payload = self._encode(message)
        if type(payload) is not bytes and (payload := checked_bytes(payload)) is None:
            return self._written
        mark = None if sequence is None else (checked_partition(partition), checked_sequence(sequence))
        size = _cost(payload, mark)
        with self._lock:
            if self._held_bytes > self._most_bytes:
                self._wait_for_room()
            if len(payload) > self._largest:
                raise WallarooError(
                    f"A message of {len(payload):,} bytes is too large: the application takes messages of up to "
                    f"{self._largest:,} bytes (--max-message-size)."
                )
            self._written += 1
            self._held_bytes += size
            self._unsent_bytes += size
            self._unsent.append(payload)
            if mark is not None:
                self._marks[self._written] = mark
            if self._is_idle:
                self._is_idle = False
                self._bell.ring()
            return self._written

    @property
    def acknowledged(self) -> int:
        """Return the number up to which the application has all messages on its disk, or has dropped them."""
        return self._acknowledged

    def wait_acknowledged(self, number: int | None = None, timeout: float | None = None) -> bool:
        """Wait until the application has messages on its disk.

        Args:
            number: What `write` has returned for the last of them; all that were written, if it is left out.
            timeout: How many seconds to wait at most.

        Returns:
            Whether it has them.
        """
        with self._changed:
            wanted = self._written if number is None else number
            self._changed.wait_for(lambda: self._acknowledged >= wanted or self._is_over, timeout)
            if self._acknowledged < wanted and self._failure is not None:
                raise self._failure
            return self._acknowledged >= wanted

    def resume_from(self, partition: Any) -> int | None:
        """Return where a partition stands; a script that starts again continues with the message after that.

        What was written just before may not be included yet.

        Args:
            partition: The partition.

        Returns:
            The last sequence that the application has of it on its disk; None if it has none.
        """
        name = checked_partition(partition)
        with self._changed:
            self._raise_if_over()
            self._questions += 1
            question = self._questions
            self._asked[question] = name
            self._is_idle = False
            self._bell.ring()
            try:
                self._changed.wait_for(lambda: question in self._answers or self._is_over)
                if question not in self._answers:
                    self._raise_if_over()
                return self._answers.pop(question)
            finally:
                self._asked.pop(question, None)

    def close(self, timeout: float | None = None) -> bool:
        """Wait until the application has everything on its disk, and disconnect.

        Args:
            timeout: How many seconds to wait at most. Without it, an application that is not there is waited for.

        Returns:
            Whether it has everything.

        Raises:
            WallarooError: The connection has failed for good, and the application has not confirmed everything.
        """
        thread = self._thread
        if thread is None:
            return True
        try:
            with self._changed:
                self._changed.wait_for(lambda: self._acknowledged >= self._written or self._is_over, timeout)
        finally:
            with self._changed:
                self._is_closing = True
                self._most_bytes = -1
                self._changed.notify_all()
            self._bell.ring()
            thread.join()
            self._bell.close()
            _open.discard(self)
        if self._failure is not None and self._acknowledged < self._written:
            raise self._failure
        return self._acknowledged >= self._written

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            # What has ended the block is raised; a failure has been logged.
            with contextlib.suppress(WallarooError):
                self.close(0 if issubclass(kind, KeyboardInterrupt) else _AT_EXIT_SECONDS)

    @property
    def _is_over(self) -> bool:
        return self._is_closing or self._failure is not None

    def _raise_if_over(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._is_closing:
            raise WallarooError("This SourceExtension is closed.")
        if self._thread is None:
            raise WallarooError("This SourceExtension is not connected: call connect(host, port) first.")

    def _wait_for_room(self) -> None:
        self._raise_if_over()
        self._changed.wait_for(lambda: self._held_bytes <= self._most_bytes or self._is_over)
        self._raise_if_over()

    def _run(self) -> None:
        """Keep a connection, until closed; this is the thread."""
        while not self._is_closing:
            try:
                with Channel(dial(self._address, _DIAL_SECONDS), BESIDE_MESSAGE) as channel:
                    self._greet(channel)
                    self._missing.end(f"Connected to the application at {self._where}.")
                    self._serve(channel)
            except OtherVersionError as error:
                self._fail(f"{error}.")
            except _RefusedError as error:
                self._fail(f"The application at {self._where} has refused what this script has sent: {error}")
            except ProtocolError as error:
                self._fail(f"What listens at {self._where} is not a source for extensions: {error.reason}.")
            except OSError as error:
                self._is_connected = False
                self._missing.begin(
                    f"Waiting for the application at {self._where} ({_reason(error)}); retrying until it is there."
                )
                self._bell.wait(self._retries.next())
            except Exception as error:  # noqa: BLE001 - otherwise the script would wait forever
                self._fail(f"The connection to {self._where} failed with {type(error).__name__}: {error}.")
            if self._failure is not None:
                return

    @property
    def _where(self) -> str:
        return f"{self._address[0]}:{self._address[1]}"

    def _fail(self, reason: str) -> None:
        with self._changed:
            if lacking := self._written - self._acknowledged:
                _LOGGER.error("%s Messages that the application has not confirmed: %d.", reason, lacking)
            self._failure = WallarooError(reason)
            self._most_bytes = -1
            self._changed.notify_all()

    def _greet(self, channel: Channel) -> None:
        """Say who this is, and find out what the application has."""
        channel.send(hello("source", script=self._script))
        deadline = time.monotonic() + _HELLO_SECONDS
        came: list[Hello | Frame] = []
        while not came:
            if self._is_closing:
                raise ConnectionError("the script ends")
            if (left := deadline - time.monotonic()) <= 0:
                raise ConnectionError("it accepts connections and does not answer: is it the application?")
            came = channel.exchange(self._bell, left)
        first, *others = came
        assert isinstance(first, Hello)
        first.check_version(f"The application at {self._where}")
        accepted, largest = first.says.get("accepted"), first.says.get("largest")
        if first.says.get("role") != "application" or not isinstance(accepted, int) or not isinstance(largest, int):
            raise ProtocolError("its hello is that of something else")
        with self._changed:
            longest = max([*(sent.largest for sent in self._sent), *map(len, self._unsent)], default=0)
            if longest > largest:
                raise _RefusedError(
                    f"a message of {longest:,} bytes was written, and now it takes messages of up to {largest:,} bytes "
                    "(--max-message-size)."
                )
            self._largest = largest
            # What the application has, it may not have on its disk yet: it is kept, and not sent again.
            self._next = sum(sent.last <= accepted for sent in self._sent)
            self._is_connected = True
            self._changed.notify_all()
        self._take(others)

    def _serve(self, channel: Channel) -> None:
        """Send what is written, and take what the application answers, until closed."""
        asked: set[int] = set()
        while True:
            while not channel.is_sending and (data := self._following(asked)) is not None:
                channel.send(data)
            if self._is_closing:
                if self._acknowledged >= self._written:
                    channel.send(frame(BYE))
                return
            self._take(channel.exchange(self._bell, None))

    def _following(self, asked: set[int]) -> bytes | None:
        """Return what is to be sent next, None if there is nothing."""
        with self._changed:
            if new := self._asked.keys() - asked:
                question = min(new)
                asked.add(question)
                return pack_ask(question, self._asked[question])
            if self._next == len(self._sent):
                if not self._unsent:
                    self._is_idle = True
                    return None
                first = self._written - len(self._unsent) + 1
                unsent, marks, cost = self._next_unsent(first)
            else:
                self._next += 1
                return self._sent[self._next - 1].frame
        # Not while others wait for the lock.
        packed = _pack(unsent, marks, first)
        with self._changed:
            self._sent.append(_Sent(first + len(unsent) - 1, packed, cost, max(map(len, unsent))))
            self._next += 1
        return packed

    def _next_unsent(self, first: int) -> tuple[list[bytes], dict[int, tuple[str, int]], int]:
        """Return messages for a frame, the partitions and sequences of some of them, and what they count."""
        if self._unsent_bytes <= FRAME_BYTES:
            unsent, self._unsent = self._unsent, []
            marks, self._marks = self._marks, {}
            cost, self._unsent_bytes = self._unsent_bytes, 0
            return unsent, marks, cost
        cost = number = 0
        while number < len(self._unsent):
            size = _cost(self._unsent[number], self._marks.get(first + number))
            if number and cost + size > FRAME_BYTES:
                break
            cost += size
            number += 1
        unsent = self._unsent[:number]
        del self._unsent[:number]
        self._unsent_bytes -= cost
        marked = range(first, first + number) if self._marks else ()
        return unsent, {each: self._marks.pop(each) for each in marked if each in self._marks}, cost

    def _take(self, came: list[Hello | Frame]) -> None:
        for each in came:
            if not isinstance(each, Hello) and each.kind == REFUSED:
                raise _RefusedError(each.body.decode(errors="replace"))
            if isinstance(each, Hello) or each.kind not in {DURABLE, STANDS}:
                raise ProtocolError("it sent what only a script sends")
            with self._changed:
                if each.kind == DURABLE:
                    # Not before: an application that takes a connection may not take what is sent.
                    self._retries.reset()
                    self._is_durable(unpack_durable(each.body))
                else:
                    question, sequence = unpack_stands(each.body)
                    if question in self._asked:
                        self._answers[question] = sequence
                self._changed.notify_all()

    def _was_copied(self) -> None:
        """Be of no use in a copy of the process: the connection, and its thread, are in the other one."""
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._thread = None
        self._most_bytes = -1
        self._failure = WallarooError(
            "This SourceExtension was connected in another process, of which this one is a copy: make and connect one "
            "in this process."
        )
        # Here nothing has been written that could be lost.
        self._written = self._acknowledged

    def _is_durable(self, number: int) -> None:
        self._acknowledged = max(self._acknowledged, min(number, self._written))
        while self._sent and self._sent[0].last <= number:
            self._held_bytes -= self._sent.popleft().cost
            self._next = max(self._next - 1, 0)


def _cost(payload: bytes, mark: tuple[str, int] | None) -> int:
    """Return what a message counts: a frame has its bytes, and may have the name of its partition."""
    return len(payload) + _MESSAGE_BYTES + (0 if mark is None else len(mark[0]))


def _pack(payloads: list[bytes], marks: dict[int, tuple[str, int]], first: int) -> bytes:
    """Return a frame of messages; `marks` has the partitions and sequences of some of them, by their numbers."""
    if not marks:
        return pack_messages(Messages(first, payloads, [], (), ()))
    numbers: dict[str, int] = {}
    partitions, sequences = [], []
    for number in range(first, first + len(payloads)):
        if (mark := marks.get(number)) is None:
            partitions.append(NO_PARTITION)
            sequences.append(0)
        else:
            partitions.append(numbers.setdefault(mark[0], len(numbers)))
            sequences.append(mark[1])
    return pack_messages(Messages(first, payloads, list(numbers), partitions, sequences))


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _forget_all() -> None:
    """Make the extensions that are connected useless in a process that was copied from this one."""
    for extension in list(_open):
        extension._was_copied()  # noqa: SLF001 - our own
    _open.clear()


os.register_at_fork(after_in_child=_forget_all)


@atexit.register
def _finish() -> None:
    """Send what scripts have written that end without `close`."""
    for extension in list(_open):
        is_done = True
        with contextlib.suppress(WallarooError):  # It has been logged.
            is_done = extension.close(_AT_EXIT_SECONDS)
        if not is_done:
            lacking = extension._written - extension.acknowledged  # noqa: SLF001 - our own
            _LOGGER.warning(
                "The script has ended, and the application has not confirmed the last %d messages: it may not have "
                "them. Call close() at the end, which waits for it.",
                lacking,
            )
