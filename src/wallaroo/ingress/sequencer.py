"""Puts what the sources accept into one sequence of blocks, and hands the blocks to those who process them.

Blocks are cut when they can be worked on. While little comes in, a block is cut a few milliseconds after its first
message; while there is more to do than is done, blocks grow instead of queueing up. What was handed out and has not
been delivered stays within a window of bytes, so that nothing piles up behind the log: a receiver that does not read
stops the egress, then the readers, then the log fills, and senders are held back.

Those who process are some *readers*, which take the blocks in turn. An *epoch* is what they take between two commits:
it ends, in front of the same block for all of them, when it has lasted long enough, or when somebody asks for it. They
are told, and go on with the next block.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from struct import Struct
from typing import NamedTuple

from wallaroo.ingress.sequence import Range, SequencedBlock, SequenceWriter

BLOCK_BYTES = 512 << 10
"""How large a block is cut where there is more: one read of a connection may go beyond it."""
WINDOW_BYTES = 16 << 20
"""How much may be handed out and not delivered."""
EPOCH_BYTES = 256 << 20
"""How much an epoch takes in at the most: after a failure all of it is computed again."""
INTERVAL_SECONDS = 0.004
"""The shortest time between two blocks that are not full: each has a cost of its own at every station."""
SMALL_BLOCKS_AT_ONCE = 2
"""How many blocks for each reader may be under way for one that is not full to be cut."""
RETRY_SECONDS = 1.0
"""How soon a block is tried again that could not be written."""
SYNC_SECONDS = 1.0
"""How often the sequence is forced to the disk, like the logs."""
_MAX_RANGES = 1024
_MAX_WAITING_BYTES = 64 << 20
"""What waits in memory to be cut is bounded: beyond this blocks are cut ahead, and wait in the sequence's files."""

FRAME = Struct(">qiI")
"""The number of a block, the length of what follows, and the block's size, by which readers see how much is to be done.

A length of -1 says that the epoch ends before this block.
"""


class ReaderChannel(NamedTuple):
    """The way to one reader."""

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
        on_cut_failed: Callable[[OSError], None],
        on_delivered: Callable[[Range], None] = lambda _: None,
    ) -> None:
        self._sequence = sequence
        self._max_epoch_bytes = epoch_bytes
        self._epoch_seconds = epoch_seconds
        self._on_cut_failed = on_cut_failed
        self._on_delivered = on_delivered
        self._waiting: deque[tuple[Range, int]] = deque()
        self._waiting_bytes = 0
        self._attempt = ""
        self._past: set[str] = set()
        """Attempts that have ended: one of their tasks may still be on its way here."""
        self._starts_at = 0
        """The block where all readers of this attempt begin."""
        self._lines: dict[int, ReaderChannel] = {}
        self._readers = 0
        self._replay: Iterator[SequencedBlock] = iter(())
        self._next = sequence.end
        """The number of the block that is handed out next."""
        self.handed_out = sequence.unseen
        """The blocks before this one may have been handed out, by this process or an earlier one."""
        self._ahead: SequencedBlock | None = None
        self._under_way: deque[SequencedBlock] = deque()
        self._bytes_under_way = 0
        self._epoch_bytes = 0
        self._epoch_began = 0.0
        self._epoch_start = sequence.end
        self._last_cut = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._tick_owed = False

    def appended(self, source: int, first: int, end: int, size: int) -> None:
        """Take note of messages that a source has accepted."""
        last = self._waiting[-1][0] if self._waiting else None
        if last is not None and last.source == source and last.end == first and self._waiting[-1][1] < BLOCK_BYTES:
            merged, before = self._waiting.pop()
            self._waiting.append((merged._replace(end=end), before + size))
        else:
            self._waiting.append((Range(source, first, end), size))
        self._waiting_bytes += size
        self._pump()

    def join(self, attempt: str, reader: int, readers: int, start: int, line: ReaderChannel) -> None:
        """Let a reader take its share of the blocks from `start` on, as soon as all readers are there.

        An `attempt` is one life of the query; a new one takes the place of the one before.
        """
        if attempt == self._attempt and (reader in self._lines or start != self._starts_at):
            # A task that is run once more, alone: see `left`.
            self._end_attempt()
        if attempt in self._past:
            line.close()
            return
        if attempt != self._attempt:
            self._end_attempt()
            self._attempt, self._readers, self._starts_at = attempt, readers, start
        self._lines[reader] = line
        if len(self._lines) == readers:
            self._begin_epoch(start)
            self._pump()

    def left(self, reader: int, line: ReaderChannel) -> None:
        """Take note that a reader is gone: with it this life of the query ends.

        Spark may run a task that was lost once more, alone. Its neighbours would then have what it gets a second time.
        """
        if self._lines.get(reader) is line:
            del self._lines[reader]
            self._end_attempt()

    def _end_attempt(self) -> None:
        self._past.add(self._attempt)
        self._leave_all()

    def _leave_all(self) -> None:
        for line in self._lines.values():
            line.close()
        self._lines.clear()

    def _begin_epoch(self, start: int) -> None:
        self._epoch_start = self._next = start
        self._replay = self._sequence.read_from(start) if start < self._sequence.end else iter(())
        self._ahead = None
        self._under_way.clear()
        self._bytes_under_way = self._epoch_bytes = 0
        self._epoch_began = 0.0

    def delivered(self, number: int) -> None:
        """Take note that the outputs of all blocks before `number` have been delivered."""
        while self._under_way and self._under_way[0].number < number:
            block = self._under_way.popleft()
            self._bytes_under_way -= block.size
            for each in block.ranges:
                self._on_delivered(each)
        self._pump()

    def tick(self) -> None:
        """Cut a block, with whatever waits, or nothing: it carries the time."""
        self._cut()
        self._pump()

    def end_epoch(self, of: int | None = None) -> int | None:
        """End the epoch in front of the next block; return that block's number, None where nobody takes blocks.

        The next one begins at once. Where the epoch `of` a block is to end and has ended already, this one goes on.
        """
        if not self._is_open():
            return None
        if self._next > self._epoch_start and (of is None or of >= self._epoch_start):
            for line in self._lines.values():
                line.send(FRAME.pack(self._next, -1, 0))
            self._epoch_start = self._next
            self._epoch_bytes = 0
            self._epoch_began = 0.0
        return self._epoch_start

    def committed(self, number: int) -> None:
        """Forget the blocks before `number`."""
        self._sequence.delete_before(number)

    async def force(self) -> None:
        """Force the sequence to the disk, in a thread."""
        if files := self._sequence.unsynced():
            await asyncio.to_thread(files.sync)

    async def keep_on_disk(self) -> None:
        """Force the sequence to the disk every moment."""
        while True:
            await asyncio.sleep(SYNC_SECONDS)
            try:
                await self.force()
            except OSError as error:
                self._on_cut_failed(error)

    def sync(self) -> None:
        """Force the sequence to the disk."""
        try:
            self._sequence.sync()
        except OSError as error:
            self._on_cut_failed(error)

    def close(self) -> None:
        """Force the sequence to the disk and close it; nothing is handed out any more."""
        self._readers = 0
        for timer in (self._timer, self._retry):
            if timer is not None:
                timer.cancel()
        self._leave_all()
        try:
            self._sequence.close(self.handed_out)
        except OSError as error:
            self._on_cut_failed(error)

    def _pump(self) -> None:
        """Hand out what may be handed out, and see to it that this is done again in time."""
        while self._is_open() and (block := self._next_block()) is not None:
            self._hand_out(block)
        if self._waiting_bytes > _MAX_WAITING_BYTES or len(self._waiting) > _MAX_RANGES:
            self._cut()

    def _is_open(self) -> bool:
        return self._readers > 0 and len(self._lines) == self._readers

    def _next_block(self) -> SequencedBlock | None:
        """Return the block whose turn it is, if it may go now."""
        if self._next < self._sequence.end:
            if self._ahead is None:
                self._ahead = self._read_next()
            fits = not self._under_way or self._bytes_under_way + self._ahead.size <= WINDOW_BYTES
            return self._ahead if fits else None
        if not self._waiting:
            return None
        if self._waiting_bytes < BLOCK_BYTES and not self._may_cut_small():
            return None
        if self._under_way and self._bytes_under_way + min(self._waiting_bytes, BLOCK_BYTES) > WINDOW_BYTES:
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
        if len(self._under_way) >= SMALL_BLOCKS_AT_ONCE * self._readers:
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
        """Make a block of what waits, up to the size of a block."""
        taken: list[tuple[Range, int]] = []
        size = 0
        while self._waiting and (not taken or (size < BLOCK_BYTES and len(taken) < _MAX_RANGES)):
            taken.append(self._waiting.popleft())
            size += taken[-1][1]
        try:
            block = self._sequence.append(time.time_ns(), size, tuple(each for each, _ in taken))
        except OSError as error:
            self._waiting.extendleft(reversed(taken))
            self._on_cut_failed(error)
            self._try_again_later(tick=not taken)
            return
        self._waiting_bytes -= size
        self._last_cut = time.monotonic()
        if block.number == self._next:
            self._ahead = block
            # All before it has been read again; when there is something to read next, these files may be gone.
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
        self._under_way.append(block)
        self._bytes_under_way += block.size
        packed = block.pack()
        self._lines[block.number % self._readers].send(FRAME.pack(block.number, len(packed), block.size) + packed)
        self._epoch_bytes += block.size
        if self._epoch_bytes >= self._max_epoch_bytes:
            # A log gets shorter only with a commit.
            self.end_epoch()
        elif not self._epoch_began:
            self._epoch_began = time.monotonic()
            asyncio.get_running_loop().call_later(self._epoch_seconds, self._epoch_is_over, self._epoch_start)

    def _epoch_is_over(self, start: int) -> None:
        if start == self._epoch_start:
            self.end_epoch()
