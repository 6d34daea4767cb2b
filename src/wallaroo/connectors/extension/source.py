"""The half of an extension's source that runs in the ingress: takes messages from scripts, and tells what is durable.

Messages that the application has had are dropped; the others go into the log, each frame with a note of what the
application then has. When they are on the disk, the scripts are told.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from wallaroo.connectors.extension.logged_frames import Note, split_note
from wallaroo.connectors.extension.protocol import (
    BESIDE_MESSAGE,
    NO_PARTITION,
    Messages,
    ProtocolError,
)
from wallaroo.connectors.extension.source_connection import Answers, Frames, Script
from wallaroo.connectors.extension.standing import MOST_PARTITIONS, Standing
from wallaroo.connectors.tcp.source import TcpSource
from wallaroo.connectors.tcp.source_connection import Connection
from wallaroo.ingress.log import LogReader
from wallaroo.ingress.log.format import OFFSET_SIZE, LogCorruptError, segment_starts

if TYPE_CHECKING:
    from pathlib import Path

    from wallaroo.connectors.base import IntakeContext, SourceLog
    from wallaroo.ingress.log.reader import RawPiece

_FIRST_PAUSE_SECONDS = 0.002
_PAUSE_SECONDS = 0.05
"""Between two syncs to the disk: each is for all that has come meanwhile."""
_RETRY_SECONDS = 1.0


class ExtensionIntake(TcpSource):
    """Appends what scripts send to the log of its source."""

    def __init__(self, address: tuple[str, int], log: SourceLog, context: IntakeContext) -> None:
        self.most_frame = context.limits.max_message_size + BESIDE_MESSAGE
        super().__init__(address, None, log, context)
        self.largest = context.limits.max_message_size
        self._connected: dict[str, Script] = {}
        """The scripts that have said hello, by their ids."""
        self._waiting: dict[Script, None] = {}
        """Those that have sent something since the last sync."""
        self._held: dict[Script, None] = {}
        """Those that have sent messages while the log takes none."""
        self._has_news = asyncio.Event()
        self._on_disk = -1
        """Up to where the log is known to be on the disk."""
        self._has_warned = False
        self._syncing: asyncio.Task[None] | None = None
        self._standing: Standing | None = None
        log.before_each_segment(
            lambda end: self._standing_at(end).save(end), lambda: Standing(self._log.directory).position
        )

    async def start(self) -> tuple[str, int]:
        """Find out what the application has, and listen."""
        end = self._log.end
        if self._standing_at(end).position < end:
            # Messages before a segment that the recovery of the log has started may be deleted from now on. On a full
            # disk they are kept at least until something is processed.
            with contextlib.suppress(OSError):
                await self._log.force()
                self.standing.save(end)
        self._syncing = asyncio.get_running_loop().create_task(self._tell_what_is_durable())
        return await super().start()

    @property
    def standing(self) -> Standing:
        """Return what the application has of scripts and partitions."""
        assert self._standing is not None
        return self._standing

    def _standing_at(self, end: int) -> Standing:
        """Return the same, from the file and the log if it is not known yet: the log ends at `end`."""
        if self._standing is None:
            self._standing = Standing(self._log.directory)
            self._standing.follow(notes_in(self._log.directory, self._standing.position, end))
        return self._standing

    def close(self) -> None:
        """Stop listening, and close the connections."""
        if self._syncing is not None:
            self._syncing.cancel()
        super().close()

    def _framer(self) -> Any:
        return Frames(self.most_frame)

    def _accepted(self) -> Connection:
        return Script(self).connection(self._framer(), self._unfinished)

    def opened(self, connection: Connection) -> None:
        """Register a new connection, which is read also while the log takes no messages."""
        super().opened(connection)
        connection.release(self)

    def hold(self) -> None:
        """Take no more messages: a script that sends some is not read any more, all others are."""

    def release(self) -> None:
        """Take messages again, first those that have come."""
        for script in list(self._held):
            if self.is_held:
                return
            del self._held[script]
            script.resume()

    @property
    def is_held(self) -> bool:
        """Return whether the log takes no messages for now."""
        return self._log.held_back

    def hold_script(self, script: Script) -> None:
        """Have a script wait until the log takes messages."""
        self._held[script] = None

    def greeted(self, name: str, script: Script) -> None:
        """Register a script that has said hello; it does not use an older connection any more."""
        if (older := self._connected.get(name)) is not None:
            older.leave()
        self._connected[name] = script

    def left(self, name: str, script: Script) -> None:
        """Forget a connection that has ended."""
        self._held.pop(script, None)
        if self._connected.get(name) is script:
            del self._connected[name]

    def take(self, script: str, messages: Messages) -> int:
        """Append the messages of a frame that the application does not have; return the number of the last one."""
        last = messages.first + len(messages.payloads) - 1
        had = self.standing.number(script)
        if last <= had:
            return had
        payloads, sequences = self._new(messages, max(had - messages.first + 1, 0))
        if not payloads:
            self.standing.has_had(script, last)
            return last
        self._check_partitions(sequences)
        note = Note(len(payloads), script, last, sequences)
        payloads[0] = note.pack() + payloads[0]
        end = self.standing.end
        self.standing.add(note, (self._log.end if end is None else end) + len(payloads))
        self._log.received(payloads)
        self.standing.settle(self._log.end)
        return last

    def _new(self, messages: Messages, had: int) -> tuple[list[bytes], dict[str, int]]:
        """Return the messages that the application does not have, and their sequences; the first `had` it has."""
        if not messages.names:
            return messages.payloads[had:], {}
        known: list[int | None] = [self.standing.sequence(name) for name in messages.names]
        changed = set()
        payloads = []
        for index in range(had, len(messages.payloads)):
            partition = messages.partitions[index]
            if partition != NO_PARTITION:
                last, sequence = known[partition], messages.sequences[index]
                if last is not None and sequence <= last:
                    continue
                known[partition] = sequence
                changed.add(partition)
            payloads.append(messages.payloads[index])
        return payloads, {messages.names[each]: known[each] or 0 for each in changed}

    def _check_partitions(self, sequences: dict[str, int]) -> None:
        """Refuse more partitions than can be remembered; say when half of them are known."""
        new = sum(self.standing.sequence(name) is None for name in sequences)
        known = self.standing.partitions + new
        if new and known > MOST_PARTITIONS:
            raise ProtocolError(
                f"it names new partitions, and {MOST_PARTITIONS:,} are known, which is the limit: give what repeats a "
                "partition that exists, such as a file or a device, and no partition to anything else"
            )
        if new and not self._has_warned and known > MOST_PARTITIONS // 2:
            self._has_warned = True
            self._notice(
                f"The scripts of {self._log.name!r} have named more than {MOST_PARTITIONS // 2:,} partitions. All of "
                f"them are remembered, and more than {MOST_PARTITIONS:,} are refused."
            )

    def is_waiting(self, script: Script) -> None:
        """Have a script told when what it has sent is on the disk: now, or after the next sync."""
        if self._log.end == self._on_disk and self._log.has_written_all:
            script.tell(script.answers())
        else:
            self._waiting[script] = None
            self._has_news.set()

    async def _tell_what_is_durable(self) -> None:
        loop = asyncio.get_running_loop()
        synced_at = 0.0
        while True:
            await self._has_news.wait()
            # What comes at the same moment is synced together.
            await asyncio.sleep(max(_FIRST_PAUSE_SECONDS, synced_at + _PAUSE_SECONDS - loop.time()))
            self._has_news.clear()
            waiting, self._waiting = self._waiting, {}
            answers = [(script, script.answers()) for script in waiting]
            synced_at = loop.time()
            if await self._is_on_disk():
                for script, answer in answers:
                    self._tell(script, answer)
            else:
                for script, answer in answers:
                    script.put_back(answer)
                    self.is_waiting(script)
                await asyncio.sleep(_RETRY_SECONDS)

    def _tell(self, script: Script, answer: Answers) -> None:
        """Tell a script what is durable; if that fails, the others are told nevertheless."""
        try:
            script.tell(answer)
        except Exception as error:  # noqa: BLE001 - otherwise no script would ever be told anything again
            script.give_up("cannot be answered", f"what is on the disk cannot be told: {error}")

    async def _is_on_disk(self) -> bool:
        """Sync everything that has come to disk; return whether that was possible. If not, the source reports it."""
        if not self._log.has_written_all:
            return False
        end = self._log.end
        try:
            await self._log.force()
        except OSError:
            return False
        self._on_disk = end
        return True


def notes_in(directory: Path, first: int, end: int) -> Iterator[Note]:
    """Yield the notes in a log from a position on; what is damaged is reported when it is read."""
    log = LogReader(directory)
    for low, high in log.present(max([first, *segment_starts(directory)[:1]]), end):
        with contextlib.suppress(LogCorruptError):
            for piece in log.read_raw(low, high):
                yield from _notes_of(piece)


def _notes_of(piece: RawPiece) -> Iterator[Note]:
    ends = struct.unpack(f"<{len(piece.ends) // OFFSET_SIZE}I", piece.ends)
    at = 0
    while at < len(ends):
        begin = ends[at - 1] if at else piece.data_start
        note, _ = split_note(piece.data[begin - piece.data_start : ends[at] - piece.data_start])
        at += 1 if note is None else max(note.messages, 1)
        if note is not None:
            yield note
