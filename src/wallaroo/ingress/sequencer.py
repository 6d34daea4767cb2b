"""Puts the messages that the sources accept into one sequence of blocks, and hands the blocks out to the readers.

Blocks are cut when they can be processed. At low rates a block is cut a few milliseconds after its first message; under
load, blocks grow instead of queueing up. Blocks in flight, handed out and not yet delivered, are bounded by a window of
bytes. This gives back pressure: a receiver that does not read stops the egress, then the readers, then the log fills,
and senders are throttled.

The *readers* are tasks of the query, and take the blocks in turn. An *epoch* is what they take between two commits: it
ends, before the same block for all of them, when it has lasted long enough, or on request. The readers are notified,
and continue with the next block.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from struct import Struct
from typing import NamedTuple

from wallaroo.ingress.block_sequence import Range, SequencedBlock, SequenceWriter
from wallaroo.ingress.log.format import LogCorruptError
from wallaroo.notices import QUIET_SECONDS, Condition, Notice

BLOCK_BYTES = 512 << 10
"""The target size of a block under load: one read of a connection may exceed it."""
WINDOW_BYTES = 16 << 20
"""How many bytes may be in flight: handed out and not delivered."""
EPOCH_BYTES = 256 << 20
"""The maximum size of an epoch: after a failure all of it is computed again."""
EPOCH_BLOCKS = 3_000
"""The maximum number of blocks in an epoch, for the same reason: each has a fixed cost, however small it is."""
INTERVAL_SECONDS = 0.004
"""The minimum time between two blocks that are not full: each block has a fixed cost in every stage."""
SMALL_BLOCKS_AT_ONCE = 2
"""A block that is not full is cut only while fewer blocks than this for each reader are in flight."""
RETRY_SECONDS = 1.0
"""How long to wait before a block that could not be written is retried."""
SYNC_SECONDS = 1.0
"""How often the sequence is synced to disk, like the logs."""
_MAX_RANGES = 1024
_MAX_WAITING_BYTES = 64 << 20
"""Bounds the uncut ranges in memory: beyond this, blocks are cut ahead and wait in the sequence's files."""

FRAME = Struct(">qiI")
"""The number of a block, the length of what follows, and the block's size, by which readers see how much work it is.

A length of -1 means that the epoch ends before this block.
"""


class ReaderChannel(NamedTuple):
    """The connection to one reader."""

    send: Callable[[bytes], None]
    close: Callable[[], None]


class Sequencer:
    """Cuts blocks and hands them out. Runs in the event loop of the ingress."""

    def __init__(
        self,
        sequence: SequenceWriter,
        *,
        epoch_seconds: float,
        epoch_bytes: int = EPOCH_BYTES,
        notice: Notice,
        on_delivered: Callable[[Range], None] = lambda _: None,
    ) -> None:
        self._sequence = sequence
        self._max_epoch_bytes = epoch_bytes
        self._epoch_seconds = epoch_seconds
        self._notice = notice
        self._unwritten = Condition(notice, quiet=QUIET_SECONDS)
        self._unforced = Condition(notice, quiet=QUIET_SECONDS)
        self._on_delivered = on_delivered
        self._waiting: deque[tuple[Range, int]] = deque()
        self._waiting_bytes = 0
        self._attempt = ""
        self._ended_attempts: set[str] = set()
        """Attempts that have ended: one of their tasks may still connect late."""
        self._starts_at = 0
        """The block where all readers of this attempt start."""
        self._channels: dict[int, ReaderChannel] = {}
        self._readers = 0
        self._replay: Iterator[SequencedBlock] = iter(())
        self._next = sequence.end
        """The number of the block that is handed out next."""
        self.handed_out = sequence.unseen
        """The blocks before this one may have been handed out, by this process or an earlier one."""
        self._ahead: SequencedBlock | None = None
        self._in_flight: deque[SequencedBlock] = deque()
        self._bytes_in_flight = 0
        self._epoch_bytes = 0
        self._epoch_began = 0.0
        self._epoch_start = sequence.end
        self._last_cut = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._tick_owed = False
        self.damage: str | None = None
        """Why blocks that are needed again cannot be read, if they are damaged."""

    def appended(self, source: int, first: int, end: int, size: int, lane: int = 0) -> None:
        """Add messages that a source has accepted."""
        last, before = self._waiting[-1] if self._waiting else (None, 0)
        if last is not None and (last.source, last.lane, last.end) == (source, lane, first) and before < BLOCK_BYTES:
            self._waiting[-1] = last._replace(end=end), before + size
        else:
            self._waiting.append((Range(source, first, end, lane), size))
        self._waiting_bytes += size
        self._pump()

    def join(self, attempt: str, reader: int, readers: int, start: int, channel: ReaderChannel) -> None:
        """Let a reader take its share of the blocks from `start` on, once all readers have joined.

        An `attempt` is one start of the query; a new one replaces the previous one.
        """
        if attempt == self._attempt and (reader in self._channels or start != self._starts_at):
            # A single task that Spark has retried: see `left`.
            self._end_attempt()
        if attempt in self._ended_attempts:
            channel.close()
            return
        if attempt != self._attempt:
            self._end_attempt()
            self._attempt, self._readers, self._starts_at = attempt, readers, start
        self._channels[reader] = channel
        if len(self._channels) == readers:
            self._begin_epoch(start)
            self._pump()

    def left(self, reader: int, channel: ReaderChannel) -> None:
        """Record that a reader is gone, which ends the attempt.

        Spark may retry a single lost task. The other tasks would then get its outputs a second time.
        """
        if self._channels.get(reader) is channel:
            del self._channels[reader]
            self._end_attempt()

    def _end_attempt(self) -> None:
        self._ended_attempts.add(self._attempt)
        self._close_channels()

    def _close_channels(self) -> None:
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()

    def _begin_epoch(self, start: int) -> None:
        self._epoch_start = self._next = start
        self._replay = self._sequence.read_from(start) if start < self._sequence.end else iter(())
        self._ahead = None
        self._in_flight.clear()
        self._bytes_in_flight = self._epoch_bytes = 0
        self._epoch_began = 0.0

    def delivered(self, number: int) -> None:
        """Record that the outputs of all blocks before `number` have been delivered."""
        while self._in_flight and self._in_flight[0].number < number:
            block = self._in_flight.popleft()
            self._bytes_in_flight -= block.size
            for each in block.ranges:
                self._on_delivered(each)
        self._pump()

    def tick(self) -> None:
        """Cut a block, even if no messages wait: it carries the time."""
        self._cut()
        self._pump()

    def end_epoch(self, of: int | None = None) -> int | None:
        """End the epoch before the next block; return that block's number, None if there are no readers.

        The next epoch starts immediately. If the epoch `of` a block has already ended, the current one continues.
        """
        if not self._is_open():
            return None
        if self._next > self._epoch_start and (of is None or of >= self._epoch_start):
            for channel in self._channels.values():
                channel.send(FRAME.pack(self._next, -1, 0))
            self._epoch_start = self._next
            self._epoch_bytes = 0
            self._epoch_began = 0.0
        return self._epoch_start

    def committed(self, number: int) -> None:
        """Delete the blocks before `number`."""
        self._sequence.delete_before(number)

    async def force(self) -> None:
        """Sync the sequence to disk, in a thread."""
        if files := self._sequence.unsynced():
            await asyncio.to_thread(files.sync)

    async def keep_on_disk(self) -> None:
        """Sync the sequence to disk periodically."""
        while True:
            await asyncio.sleep(SYNC_SECONDS)
            try:
                await self.force()
            except OSError as error:
                self._not_synced(error)
            else:
                self._unforced.end("The sequence of blocks is synced to the disk again.")

    def sync(self) -> None:
        """Sync the sequence to disk."""
        try:
            self._sequence.sync()
        except OSError as error:
            self._not_synced(error)

    def _not_synced(self, error: OSError) -> None:
        self._unforced.begin(
            f"The sequence of blocks could not be synced to the disk: {error.strerror}. It is retried; until then a "
            "power failure could lose the order of what was received since, and outputs could be repeated."
        )

    def close(self) -> None:
        """Sync the sequence to disk and close it; no more blocks are handed out."""
        self._readers = 0
        for timer in (self._timer, self._retry):
            if timer is not None:
                timer.cancel()
        self._close_channels()
        try:
            self._sequence.close(self.handed_out)
        except OSError as error:
            self._notice(f"The sequence of blocks could not be synced to the disk at the end: {error.strerror}.")
        self._unwritten.close()
        self._unforced.close()

    def _pump(self) -> None:
        """Hand out all blocks that may be handed out now, and schedule the next call if necessary."""
        try:
            while self._is_open() and (block := self._next_block()) is not None:
                self._hand_out(block)
        except LogCorruptError as error:
            # The driver asks for the reason when it finds its query ended. Senders are not concerned.
            self.damage = str(error)
            self._end_attempt()
        except OSError as error:
            self._notice(f"The sequence of blocks cannot be read: {error.strerror}. It is retried.")
            self._end_attempt()
        if self._waiting_bytes > _MAX_WAITING_BYTES or len(self._waiting) > _MAX_RANGES:
            self._cut()

    def _is_open(self) -> bool:
        return self._readers > 0 and len(self._channels) == self._readers

    def _next_block(self) -> SequencedBlock | None:
        """Return the next block, if it may be handed out now."""
        if self._next < self._sequence.end:
            if self._ahead is None:
                self._ahead = self._read_next()
            fits = not self._in_flight or self._bytes_in_flight + self._ahead.size <= WINDOW_BYTES
            return self._ahead if fits else None
        if not self._waiting:
            return None
        if self._waiting_bytes < BLOCK_BYTES and not self._may_cut_small():
            return None
        if self._in_flight and self._bytes_in_flight + min(self._waiting_bytes, BLOCK_BYTES) > WINDOW_BYTES:
            return None
        self._cut()
        return self._next_block() if self._next < self._sequence.end else None

    def _read_next(self) -> SequencedBlock:
        block = next(self._replay, None)
        if block is None:
            self._replay = self._sequence.read_from(self._next)
            block = next(self._replay)
        return block

    def _may_cut_small(self) -> bool:
        if len(self._in_flight) >= SMALL_BLOCKS_AT_ONCE * self._readers:
            return False
        wait = self._last_cut + INTERVAL_SECONDS - time.monotonic()
        if wait <= 0:
            return True
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(wait, self._on_timer)
        return False

    def _on_timer(self) -> None:
        self._timer = None
        self._pump()

    def _cut(self) -> None:
        """Cut a block from the waiting messages, up to the size of a block."""
        taken: list[tuple[Range, int]] = []
        size = 0
        while self._waiting and (not taken or (size < BLOCK_BYTES and len(taken) < _MAX_RANGES)):
            taken.append(self._waiting.popleft())
            size += taken[-1][1]
        try:
            block = self._sequence.append(time.time_ns(), size, tuple(each for each, _ in taken))
        except OSError as error:
            self._waiting.extendleft(reversed(taken))
            self._unwritten.begin(f"The sequence of blocks cannot be written: {error.strerror}. It is retried.")
            self._try_again_later(tick=not taken)
            return
        self._unwritten.end("The sequence of blocks can be written again.")
        self._waiting_bytes -= size
        self._last_cut = time.monotonic()
        if block.number == self._next:
            self._ahead = block
            # The replay is complete, and its open files may have been deleted by the time of the next one.
            self._replay = iter(())

    def _try_again_later(self, *, tick: bool) -> None:
        self._tick_owed = self._tick_owed or tick
        if self._retry is None:
            self._retry = asyncio.get_running_loop().call_later(RETRY_SECONDS, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        owed, self._tick_owed = self._tick_owed, False
        if owed:
            self._cut()
        self._pump()

    def _hand_out(self, block: SequencedBlock) -> None:
        self._ahead = None
        self._next = block.number + 1
        self.handed_out = max(self.handed_out, self._next)
        self._in_flight.append(block)
        self._bytes_in_flight += block.size
        packed = block.pack()
        self._channels[block.number % self._readers].send(FRAME.pack(block.number, len(packed), block.size) + packed)
        self._epoch_bytes += block.size
        if self._epoch_bytes >= self._max_epoch_bytes or self._next - self._epoch_start >= EPOCH_BLOCKS:
            # Only a commit shortens the logs, and what has to be computed again after a failure.
            self.end_epoch()
        elif not self._epoch_began:
            self._epoch_began = time.monotonic()
            asyncio.get_running_loop().call_later(self._epoch_seconds, self._epoch_is_over, self._epoch_start)

    def _epoch_is_over(self, start: int) -> None:
        if start == self._epoch_start:
            self.end_epoch()
