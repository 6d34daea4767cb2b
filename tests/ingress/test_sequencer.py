"""The sequencer: which reader gets which block when, and when an epoch ends."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from wallaroo.ingress import block_sequence as sequence_module
from wallaroo.ingress import sequencer as sequencer_module
from wallaroo.ingress.block_sequence import (
    Range,
    SequencedBlock,
    SequenceWriter,
    first_unseen,
    segment_firsts,
    unpack_block,
)
from wallaroo.ingress.sequencer import (
    BLOCK_BYTES,
    EPOCH_BLOCKS,
    EPOCH_BYTES,
    FRAME,
    SMALL_BLOCKS_AT_ONCE,
    WINDOW_BYTES,
    ReaderChannel,
    Sequencer,
)


class Reader:
    """A reader that takes down what it is handed."""

    def __init__(self) -> None:
        self.blocks: list[SequencedBlock] = []
        self.end: int | None = None
        self.closed = False
        self.line = ReaderChannel(self._take, self._close)

    def _take(self, frame: bytes) -> None:
        number, length, size = FRAME.unpack_from(frame)
        if length < 0:
            self.end = number
        else:
            self.blocks.append(unpack_block(frame[FRAME.size :]))
            assert (self.blocks[-1].number, self.blocks[-1].size) == (number, size)

    def _close(self) -> None:
        self.closed = True

    @property
    def numbers(self) -> list[int]:
        return [block.number for block in self.blocks]


def _joined(sequencer: Sequencer, number: int, start: int = 0, attempt: str = "one") -> list[Reader]:
    readers = [Reader() for _ in range(number)]
    for at, reader in enumerate(readers):
        sequencer.join(attempt, at, number, start, reader.line)
    return readers


def _run(folder: Path, test: Callable[[Sequencer], Awaitable[None]], epoch_seconds: float = 600.0) -> None:
    async def run() -> None:
        sequence = SequenceWriter(folder, ["a", "b"])
        notices: list[str] = []
        await test(Sequencer(sequence, epoch_seconds=epoch_seconds, notice=notices.append))
        assert not notices
        sequence.close()

    asyncio.run(run())


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - nobody tells when it holds
            await asyncio.sleep(0.001)


def test_what_arrives_while_nothing_is_in_progress_is_handed_out_at_once(tmp_path: Path) -> None:
    async def test(sequencer: Sequencer) -> None:
        [reader] = _joined(sequencer, 1)
        sequencer.appended(0, 0, 3, 30)
        await _until(lambda: bool(reader.blocks))
        assert reader.blocks[0].ranges == (Range(0, 0, 3),)

    _run(tmp_path, test)


def test_nothing_is_handed_out_before_all_readers_are_there(tmp_path: Path) -> None:
    async def test(sequencer: Sequencer) -> None:
        first = Reader()
        sequencer.appended(0, 0, 3, BLOCK_BYTES)
        sequencer.join("one", 0, 2, 0, first.line)
        sequencer.appended(0, 3, 6, BLOCK_BYTES)
        assert not first.blocks
        second = Reader()
        sequencer.join("one", 1, 2, 0, second.line)
        assert (first.numbers, second.numbers) == ([0], [1])

    _run(tmp_path, test)


def test_sources_are_in_the_order_in_which_they_were_accepted(tmp_path: Path) -> None:
    async def test(sequencer: Sequencer) -> None:
        sequencer.appended(0, 0, 3, 30)
        sequencer.appended(1, 0, 1, 10)
        sequencer.appended(1, 1, 2, 10)
        sequencer.appended(0, 3, 4, 10)
        [reader] = _joined(sequencer, 1)
        await _until(lambda: bool(reader.blocks))
        assert reader.blocks[0].ranges == (Range(0, 0, 3), Range(1, 0, 2), Range(0, 3, 4))
        assert reader.blocks[0].size == 60

    _run(tmp_path, test)


def test_no_more_is_handed_out_than_fits_into_the_window(tmp_path: Path) -> None:
    async def test(sequencer: Sequencer) -> None:
        [reader] = _joined(sequencer, 1)
        fit = WINDOW_BYTES // BLOCK_BYTES
        for at in range(2 * fit):
            sequencer.appended(0, at, at + 1, BLOCK_BYTES)
        assert len(reader.blocks) == fit
        sequencer.delivered(1)
        assert len(reader.blocks) == fit + 1
        sequencer.delivered(fit + 1)
        assert len(reader.blocks) == 2 * fit

    _run(tmp_path, test)


def test_a_message_larger_than_the_window_goes_alone(tmp_path: Path) -> None:
    async def test(sequencer: Sequencer) -> None:
        [reader] = _joined(sequencer, 1)
        sequencer.appended(0, 0, 1, 4 * WINDOW_BYTES)
        sequencer.appended(0, 1, 2, BLOCK_BYTES)
        assert reader.numbers == [0]
        sequencer.delivered(1)
        assert reader.numbers == [0, 1]

    _run(tmp_path, test)


def test_small_blocks_wait_and_grow_while_enough_are_in_progress(tmp_path: Path) -> None:
    async def test(sequencer: Sequencer) -> None:
        [reader] = _joined(sequencer, 1)
        at = 0
        while len(reader.blocks) < SMALL_BLOCKS_AT_ONCE:
            sequencer.appended(0, at, at + 1, 10)
            at += 1
            await asyncio.sleep(0.001)
        for _ in range(50):
            sequencer.appended(0, at, at + 1, 10)
            at += 1
            await asyncio.sleep(0.001)
        assert len(reader.blocks) == SMALL_BLOCKS_AT_ONCE
        sequencer.delivered(1)
        await _until(lambda: len(reader.blocks) == SMALL_BLOCKS_AT_ONCE + 1)
        assert reader.blocks[-1].ranges[-1].end == at
        assert len(reader.blocks[-1].ranges) == 1

    _run(tmp_path, test)


def test_an_epoch_ends_for_all_readers_before_the_same_block_and_the_next_one_starts_there(tmp_path: Path) -> None:
    async def test(sequencer: Sequencer) -> None:
        readers = _joined(sequencer, 2)
        for at in range(5):
            sequencer.appended(at % 2, at // 2, at // 2 + 1, BLOCK_BYTES)
        assert sequencer.end_epoch() == 5
        assert [reader.end for reader in readers] == [5, 5]
        sequencer.appended(0, 3, 4, BLOCK_BYTES)
        assert [reader.numbers for reader in readers] == [[0, 2, 4], [1, 3, 5]]
        assert sequencer.end_epoch() == 6
        # Nothing has begun since.
        readers[0].end = None
        assert sequencer.end_epoch() == 6
        assert readers[0].end is None

    _run(tmp_path, test)


def test_the_end_of_the_epoch_of_a_block_is_requested_only_once(tmp_path: Path) -> None:
    async def test(sequencer: Sequencer) -> None:
        [reader] = _joined(sequencer, 1)
        for at in range(3):
            sequencer.appended(0, at, at + 1, BLOCK_BYTES)
        assert sequencer.end_epoch(of=0) == 3
        sequencer.appended(0, 3, 4, BLOCK_BYTES)
        assert sequencer.end_epoch(of=2) == 3
        assert reader.end == 3
        assert sequencer.end_epoch(of=3) == 4
        assert reader.end == 4

    _run(tmp_path, test)


def test_an_epoch_ends_by_itself_some_time_after_its_first_block_and_never_without_one(tmp_path: Path) -> None:
    async def test(sequencer: Sequencer) -> None:
        [reader] = _joined(sequencer, 1)
        await asyncio.sleep(0.1)
        assert reader.end is None
        sequencer.appended(0, 0, 1, BLOCK_BYTES)
        await _until(lambda: reader.end == 1)

    _run(tmp_path, test, epoch_seconds=0.02)


def test_a_new_attempt_gets_all_blocks_since_the_commit_once_more_and_the_old_one_nothing(tmp_path: Path) -> None:
    async def test(sequencer: Sequencer) -> None:
        [old] = _joined(sequencer, 1)
        for at in range(4):
            sequencer.appended(0, at, at + 1, BLOCK_BYTES)
        readers = _joined(sequencer, 3, 1, attempt="two")
        assert old.closed
        sequencer.left(0, old.line)
        sequencer.appended(0, 4, 5, BLOCK_BYTES)
        assert [reader.numbers for reader in readers] == [[3], [1, 4], [2]]
        assert old.numbers == [0, 1, 2, 3]

    _run(tmp_path, test)


def test_a_task_that_is_run_once_more_alone_gets_nothing_and_ends_the_attempt(tmp_path: Path) -> None:
    async def test(sequencer: Sequencer) -> None:
        before, beside = _joined(sequencer, 2)
        sequencer.appended(0, 0, 1, BLOCK_BYTES)
        again = Reader()
        sequencer.join("one", 0, 2, 0, again.line)
        assert [reader.closed for reader in (before, beside, again)] == [True] * 3
        _joined(sequencer, 2, attempt="two")
        late = Reader()
        sequencer.join("one", 0, 2, 0, late.line)
        assert late.closed
        assert sequencer.end_epoch() == 1
        behind = Reader()
        sequencer.join("two", 0, 2, 0, behind.line)
        assert behind.closed

    _run(tmp_path, test)


def test_a_reader_that_leaves_within_an_epoch_ends_it_for_all(tmp_path: Path) -> None:
    async def test(sequencer: Sequencer) -> None:
        readers = _joined(sequencer, 3)
        sequencer.left(1, readers[1].line)
        assert [reader.closed for reader in readers] == [True, False, True]
        assert sequencer.end_epoch() is None
        sequencer.appended(0, 0, 1, BLOCK_BYTES)
        assert _joined(sequencer, 1, attempt="two")[0].numbers == [0]

    _run(tmp_path, test)


def test_blocks_are_the_same_after_a_restart_of_the_ingress(tmp_path: Path) -> None:
    seen: list[SequencedBlock] = []

    async def before(sequencer: Sequencer) -> None:
        [reader] = _joined(sequencer, 1)
        for at in range(4):
            sequencer.appended(at % 2, at // 2, at // 2 + 1, BLOCK_BYTES)
        seen.extend(reader.blocks)

    async def after(sequencer: Sequencer) -> None:
        [reader] = _joined(sequencer, 1, 2)
        assert reader.blocks == seen[2:]

    _run(tmp_path, before)
    _run(tmp_path, after)


def test_a_tick_is_a_block_without_messages(tmp_path: Path) -> None:
    async def test(sequencer: Sequencer) -> None:
        [reader] = _joined(sequencer, 1)
        sequencer.tick()
        assert [(block.number, block.ranges, block.time_ns > 0) for block in reader.blocks] == [(0, (), True)]

    _run(tmp_path, test)


def test_what_waits_for_readers_does_not_fill_the_memory(tmp_path: Path) -> None:
    async def test(sequencer: Sequencer) -> None:
        for at in range(5000):
            sequencer.appended(at % 2, at // 2, at // 2 + 1, 10)
        assert len(sequencer._waiting) < 1100
        readers = _joined(sequencer, 1)
        ranges: list[Range] = []
        while len(ranges) < 5000:
            for block in readers[0].blocks:
                ranges += block.ranges
            readers[0].blocks.clear()
            sequencer.delivered(10_000)
            await asyncio.sleep(0.002)
        assert ranges == [Range(at % 2, at // 2, at // 2 + 1) for at in range(5000)]

    _run(tmp_path, test)


def test_what_is_read_again_later_does_not_need_the_files_of_what_was_read_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequence_module, "SEGMENT_BYTES", 1000)

    async def test(sequencer: Sequencer) -> None:
        [reader] = _joined(sequencer, 1)
        number = 0

        def take_in(blocks: int) -> None:
            nonlocal number
            for _ in range(blocks):
                sequencer.appended(0, number, number + 1, BLOCK_BYTES)
                number += 1

        def deliver() -> None:
            while reader.numbers[-1:] != [number - 1]:
                sequencer.delivered(number)
            sequencer.delivered(number)

        for _ in range(2):
            # More than the window takes, so that blocks are cut ahead, and read again.
            take_in(300)
            assert len(reader.blocks) < number
            deliver()
            for _ in range(100):
                take_in(1)
                deliver()
            before = segment_firsts(tmp_path)
            sequencer.committed(number)
            assert not {*before[:-1]} & {*segment_firsts(tmp_path)}
        assert reader.numbers == list(range(number))

    _run(tmp_path, test)


def test_after_a_stop_it_is_known_what_was_cut_ahead_and_never_handed_out(tmp_path: Path) -> None:
    async def test() -> None:
        sequencer = Sequencer(SequenceWriter(tmp_path, ["a"]), epoch_seconds=60, notice=_unexpected)
        [reader] = _joined(sequencer, 1)
        for at in range(50):
            sequencer.appended(0, at, at + 1, WINDOW_BYTES // 4)
        sequencer.delivered(2)
        # An attempt that begins again, and gets less far, does not make less of it.
        [again] = _joined(sequencer, 1, attempt="two")
        sequencer.close()
        assert (reader.numbers, again.numbers) == (list(range(6)), list(range(4)))
        sequence = SequenceWriter(tmp_path, ["a"])
        assert sequence.unseen == 6 < sequence.end
        # While it runs this is unknown: it may be killed.
        assert first_unseen(tmp_path) > sequence.end
        Sequencer(sequence, epoch_seconds=60, notice=_unexpected).close()
        assert first_unseen(tmp_path) == sequence.unseen

    asyncio.run(test())


def test_an_epoch_ends_when_it_has_enough_messages(tmp_path: Path) -> None:
    async def test(sequencer: Sequencer) -> None:
        [reader] = _joined(sequencer, 1)
        number = 0
        while reader.end is None:
            sequencer.appended(0, number, number + 1, WINDOW_BYTES)
            number += 1
            sequencer.delivered(number)
        assert reader.end == EPOCH_BYTES // WINDOW_BYTES

    _run(tmp_path, test)


def test_an_epoch_ends_when_it_has_many_blocks_however_small(tmp_path: Path) -> None:
    async def test(sequencer: Sequencer) -> None:
        [reader] = _joined(sequencer, 1)
        while reader.end is None:
            sequencer.tick()
            sequencer.delivered(len(reader.blocks))
        assert reader.end == len(reader.blocks) == EPOCH_BLOCKS
        reader.end = None
        while reader.end is None:
            sequencer.tick()
            sequencer.delivered(len(reader.blocks))
        assert reader.end == len(reader.blocks) == 2 * EPOCH_BLOCKS

    _run(tmp_path, test)


def test_sources_are_notified_of_delivered_messages(tmp_path: Path) -> None:
    async def test() -> None:
        heard: list[Range] = []
        sequence = SequenceWriter(tmp_path, ["words", "orders"])
        sequencer = Sequencer(sequence, epoch_seconds=60, notice=_unexpected, on_delivered=heard.append)
        _joined(sequencer, 1)
        for at in range(3):
            sequencer.appended(at % 2, at, at + 1, BLOCK_BYTES)
        sequencer.delivered(2)
        assert heard == [Range(0, 0, 1), Range(1, 1, 2)]
        sequencer.close()

    asyncio.run(test())


def _unexpected(text: str) -> None:
    raise AssertionError(text)


def test_a_block_that_could_not_be_written_is_tried_again_and_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequencer_module, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(sequencer_module, "QUIET_SECONDS", 0.01)
    full = [True]
    tried = []

    class Writer(SequenceWriter):
        def append(self, time_ns: int, size: int, ranges: tuple[Range, ...] = ()) -> SequencedBlock:
            tried.append(size)
            if full[0]:
                raise OSError(28, "No space left on device")
            return super().append(time_ns, size, ranges)

    async def test() -> None:
        notices: list[str] = []
        sequencer = Sequencer(Writer(tmp_path, ["words"]), epoch_seconds=60, notice=notices.append)
        [reader] = _joined(sequencer, 1)
        for at in range(500):
            sequencer.appended(0, at, at + 1, BLOCK_BYTES // 500)
        sequencer.tick()
        await _until(lambda: len(tried) > 3)
        assert reader.numbers == []
        assert notices == ["The sequence of blocks cannot be written: No space left on device. It is retried."]
        full[0] = False
        await _until(lambda: len(notices) > 1)
        assert reader.blocks[0].ranges == (Range(0, 0, 500),)
        assert notices[1:] == ["The sequence of blocks can be written again."]
        sequencer.close()

    asyncio.run(test())


def test_a_sequence_that_cannot_be_synced_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequencer_module, "SYNC_SECONDS", 0.01)
    monkeypatch.setattr(sequencer_module, "QUIET_SECONDS", 0.01)
    tried = []

    def failing(file: int) -> None:
        tried.append(file)
        raise OSError(5, "Input/output error")

    async def test() -> None:
        notices: list[str] = []
        sequencer = Sequencer(SequenceWriter(tmp_path, ["words"]), epoch_seconds=60, notice=notices.append)
        syncing = asyncio.create_task(sequencer.keep_on_disk())
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", failing)
            sequencer.tick()
            await _until(lambda: len(tried) > 3)
        await _until(lambda: len(notices) > 1)
        syncing.cancel()
        sequencer.close()
        assert notices[0].startswith("The sequence of blocks could not be synced to the disk: Input/output error.")
        assert notices[1:] == ["The sequence of blocks is synced to the disk again."]

    asyncio.run(test())


def _only_segment(folder: Path) -> Path:
    (segment,) = folder.glob("*.sequence")
    return segment


def _flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [_flip_a_bit, Path.unlink])
def test_a_sequence_damaged_during_a_run_ends_the_attempt_and_senders_do_not_notice(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    async def test(sequencer: Sequencer) -> None:
        readers = _joined(sequencer, 2)
        for at in range(4):
            sequencer.appended(0, at, at + 1, BLOCK_BYTES)
        assert sequencer.damage is None
        damage(_only_segment(tmp_path))
        # A worker is lost, and the query is started again.
        sequencer.left(0, readers[0].line)
        for attempt in ("two", "three"):
            readers = _joined(sequencer, 2, attempt=attempt)
            assert [reader.closed for reader in readers] == [True, True]
            assert "of the sequence in" in str(sequencer.damage)
            assert "--skip-damaged" in str(sequencer.damage)
            assert sequencer.end_epoch() is None
            sequencer.appended(0, 4, 5, BLOCK_BYTES)
            sequencer.delivered(2)

    _run(tmp_path, test)


def test_a_sequence_that_cannot_be_read_for_a_moment_ends_the_attempt_only(tmp_path: Path) -> None:
    async def test() -> None:
        notices: list[str] = []
        sequencer = Sequencer(SequenceWriter(tmp_path, ["words"]), epoch_seconds=60, notice=notices.append)
        sequencer.tick()
        segment = _only_segment(tmp_path)
        segment.rename(tmp_path / "aside")
        segment.mkdir()
        [reader] = _joined(sequencer, 1)
        assert (reader.closed, sequencer.damage) == (True, None)
        assert notices == ["The sequence of blocks cannot be read: Is a directory. It is retried."]
        segment.rmdir()
        (tmp_path / "aside").rename(segment)
        [reader] = _joined(sequencer, 1, attempt="two")
        assert reader.numbers == [0]
        sequencer.close()

    asyncio.run(test())
